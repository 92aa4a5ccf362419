# SPDX-License-Identifier: Apache-2.0
"""The command ``servekit``. It imports when it runs, so that Ctrl-C is heeded from the start."""

import sys
from collections.abc import Sequence

from servekit.cli.exit_status import INTERRUPTED, STARTUP_FAILED

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``servekit`` and return its exit status."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    from servekit.cli.parser import create_parser
    from servekit.errors import StartupError

    command = next((word for word in arguments if not word.startswith("-")), None)
    parsed = create_parser(command).parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except StartupError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"servekit: {line}\n")
        return STARTUP_FAILED
