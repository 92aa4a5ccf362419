# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive``: parses the command line, calls the library, prints."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from servekit_archiver.cli import build, exits, extract, init, inspect, verify
from servekit_archiver.cli.parser import Parser
from servekit_archiver.errors import ArchiveError, ManifestError
from servekit_archiver.version import FORMAT, __version__

__all__ = ["create_parser", "main"]

EXAMPLES = """examples:
  %(prog)s init hello           # a model directory to start from
  %(prog)s build hello          # -> hello.mar
  %(prog)s inspect hello.mar
"""


def main(argv: Sequence[str] | None = None, program: str = "servekit-archive") -> int:
    """Run a command and return its exit status (see ``exits``).

    :param program: whose command it is, in help and in errors.
    """
    args = create_parser(program).parse(argv)
    # a terminated build removes its draft, as an interrupted one does
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(exits.TERMINATED))
    try:
        args.run(args)
        sys.stdout.flush()
    except ManifestError as error:
        for problem in error.problems:
            _complain(program, f"{error.source}: {problem}")
        return exits.REFUSED
    except ArchiveError as error:
        _complain(program, str(error))
        return exits.REFUSED
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough; keep the flush at exit quiet, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.REFUSED
    finally:
        signal.signal(signal.SIGTERM, previous)
    return exits.OK


def create_parser(program: str) -> Parser:
    """Return the parser of the commands of *program*."""
    parser = Parser(
        prog=program,
        description="Build, inspect, verify and unpack model archives.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    version = f"%(prog)s {__version__} (archive format {FORMAT})"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for command in (build, inspect, verify, extract, init):
        command.add_to(commands)
    return parser


def _complain(program: str, text: str) -> None:
    print(f"{program}:", " ".join(text.splitlines()), file=sys.stderr)
