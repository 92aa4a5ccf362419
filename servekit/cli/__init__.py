# SPDX-License-Identifier: Apache-2.0
"""The command ``servekit``. It imports when it runs, so that Ctrl-C is heeded from the start."""

import os
import sys
from collections.abc import Sequence

from servekit.cli.parsing.exit_status import INTERRUPTED, PROBLEM_FOUND, STARTUP_FAILED

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``servekit`` and return its exit status."""
    try:
        status = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough; keep the flush at exit quiet, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROBLEM_FOUND
    return status


def _run(arguments: list[str]) -> int:
    from servekit.cli.parsing.parser import ARCHIVE_COMMANDS, create_parser
    from servekit.errors import StartupError

    if arguments and arguments[0] in ARCHIVE_COMMANDS:
        from servekit_archiver.cli import main as run_archive_command

        return run_archive_command(arguments, program="servekit")
    command = next((word for word in arguments if not word.startswith("-")), None)
    parsed = create_parser(command).parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except StartupError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"servekit: {line}\n")
        return int(getattr(error, "exit_status", STARTUP_FAILED))
