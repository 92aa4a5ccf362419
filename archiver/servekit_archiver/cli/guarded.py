# SPDX-License-Identifier: Apache-2.0
"""Runs a command so that every refusal is a line of stderr and an exit status."""

import signal
import sys
from argparse import Namespace
from collections.abc import Callable

from servekit_archiver.cli.exit_status import OK, REFUSED, TERMINATED
from servekit_archiver.commands import Run
from servekit_archiver.errors import ArchiveError, ManifestError

__all__ = ["guarded"]


def guarded(run: Callable[[Namespace], None]) -> Run:
    """Return *run* with an exit status; an error is a line of stderr for each problem."""

    def run_guarded(args: Namespace) -> int:
        # a terminated build removes its draft, as an interrupted one does
        previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
        try:
            run(args)
        except ManifestError as error:
            for problem in error.problems:
                _complain(args.program, f"{error.source}: {problem}")
        except ArchiveError as error:
            _complain(args.program, str(error))
        else:
            return OK
        finally:
            signal.signal(signal.SIGTERM, previous)
        return REFUSED

    return run_guarded


def _complain(program: str, text: str) -> None:
    print(f"{program}:", " ".join(text.splitlines()), file=sys.stderr)
