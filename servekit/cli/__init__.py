# SPDX-License-Identifier: Apache-2.0
"""The command ``servekit``: modules are imported when it runs, so that Ctrl-C always works."""

import os
import sys
from collections.abc import Sequence

from servekit.cli.parsing.exit_status import INTERRUPTED, OK, PROBLEM_FOUND, STARTUP_FAILED

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``servekit`` and return its exit status."""
    try:
        from servekit_archiver.cli.standard_output import with_standard_output

        arguments = list(sys.argv[1:] if argv is None else argv)
        return with_standard_output("servekit", lambda: _run(arguments))
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    from servekit_archiver.cli.completion import is_completing
    from servekit_archiver.errors import ArchiveError

    from servekit.cli.parsing.command_table import BUILT_IN, installed_commands
    from servekit.cli.parsing.parser import create_parser
    from servekit.errors import PluginError, StartupError
    from servekit.system.account import complete_account

    complete_account(os.environ)
    if is_completing():
        from servekit.cli.completion import complete_command

        complete_command()
    command = next((word for word in arguments if not word.startswith("-")), None)
    asks_version = command is None and "--version" in arguments
    table = BUILT_IN if asks_version or command in BUILT_IN.commands else installed_commands()
    try:
        if command in table.problems and command not in table.commands:
            raise PluginError(table.problems[command])
        parsed = create_parser(command, table).parse(arguments)
        return parsed.run(parsed) or OK
    except StartupError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"servekit: {line}\n")
        return int(getattr(error, "exit_status", STARTUP_FAILED))
    except ArchiveError as error:
        sys.stderr.write(f"servekit: {error}\n")
        return PROBLEM_FOUND
