# SPDX-License-Identifier: Apache-2.0
"""``servekit doctor``: what is wrong with this machine, the settings, or a running server."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from servekit.cli.doctor import examination
from servekit.cli.doctor.examination import Examined, PlannedCheck
from servekit.cli.doctor.listening import listening_on
from servekit.cli.doctor.live_server import LiveServer
from servekit.cli.doctor.setup import Setup
from servekit.cli.parsing.options import add_options, given_flags
from servekit.cli.server import finding
from servekit.cli.server.connection import ManagedServer, NoServer, NotRunning
from servekit.errors import StartupError
from servekit.extension.checks import Diagnosis
from servekit.extension.commands import Run
from servekit.settings import Settings, load_settings
from servekit.settings.arguments import count
from servekit.supervisor.os.run_directory import running

__all__ = ["doctor"]

EPILOG = """\
It takes the flags of `servekit start`, and checks whether that server could run well here. If this
user has a server running, it is checked as well, and may keep its ports; with --server, only that
one is checked. Nothing is changed.

Exit status: 0 if all is well, or there are only remarks; 1 if there is a warning; 2 if there is an
error.

examples:
  servekit doctor --config servekit.toml
  servekit doctor digits.mar --port 80 --verbose
  servekit doctor --json
  servekit doctor --server https://models.example:8081
"""


def doctor(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.usage = "servekit doctor [OPTION ...] [MODEL ...]"
    parser.epilog = EPILOG
    parser.add_argument("paths", nargs="*", metavar="MODEL", help="as for servekit start")
    parser.add_argument("--config", type=Path, metavar="FILE", help="read settings from FILE")
    for option, of in (("--set", "single models"), ("--plugin", "plugins")):
        parser.add_argument(
            option,
            nargs="+",
            action="extend",
            metavar="NAME.KEY=VALUE",
            help=f"settings of {of}, as for `servekit start`",
        )
    parser.add_argument("--pid", type=count, metavar="N", help="the running server, if several run")
    parser.add_argument("--server", metavar="URL", help="check the server managed at URL alone")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what is well, too")
    add_options(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print the findings; the exit status says how bad the worst one is.

    :raises NoServer: the server of ``--server`` or ``--pid`` does not answer.
    """
    examined = list(_make(_plan(parsed)))
    status = examination.exit_status(examined)
    if parsed.json:
        facts = {"status": status, "checks": examined}
        print(msgspec.json.format(msgspec.json.encode(facts)).decode())
    else:
        print(examination.as_text(examined, is_verbose=parsed.verbose))
    return status


def _make(planned: Iterable[PlannedCheck]) -> Iterator[Examined]:
    """Yield what each check finds; a terminal shows which one is made."""
    is_shown = sys.stderr.isatty()
    for check in planned:
        if is_shown:
            sys.stderr.write(f"\r{check.name} ...\033[K")
            sys.stderr.flush()
        yield check.examine()
    if is_shown:
        sys.stderr.write("\r\033[K")


def _plan(parsed: argparse.Namespace) -> Iterator[PlannedCheck]:
    """Yield the checks."""
    settings, problems = _settings(parsed)
    parsed.run_dir = settings.run_dir or parsed.run_dir  # --config may say where the server runs
    server, unreachable = _server(parsed)
    if parsed.server is None:
        for name, summary, found in (
            ("settings", "whether flags, variables and the file are valid", problems),
            ("running server", "whether the server that runs answers", unreachable),
        ):
            yield PlannedCheck(name, summary, found.copy)
        setup = Setup(settings, _owned(parsed.run_dir or "", server))
        yield from examination.check_setup(setup)
        yield from examination.check_plugins(setup)
    if server is not None:
        yield from examination.check_server(LiveServer(server, finding.given_options(parsed)))


def _server(parsed: argparse.Namespace) -> tuple[ManagedServer | None, list[Diagnosis]]:
    """Return the server to check, or ``None`` and why one that runs cannot be checked.

    :raises NoServer: the server that is asked for does not answer.
    """
    try:
        server = finding.find_server(parsed)
        server.get("/models")
    except NotRunning:
        if parsed.pid is not None:
            raise
        return None, []
    except NoServer as error:
        if parsed.server is not None or parsed.pid is not None:
            raise
        meaning = "It is not checked, only the machine and the settings are."
        options = finding.given_options(parsed)
        fix = f"servekit doctor --pid N{options}; servekit logs{options}"
        return None, [Diagnosis(severity="error", text=str(error), meaning=meaning, fix=fix)]
    return server, []


def _owned(run_dir: str, server: ManagedServer | None) -> frozenset[int | str]:
    """Return the addresses of *server*, or of all that run here if it is not known which."""
    pids = [server.pid] if server is not None else running(run_dir)
    return frozenset(address for pid in pids if pid for address in listening_on(pid))


def _settings(parsed: argparse.Namespace) -> tuple[Settings, list[Diagnosis]]:
    """Return the settings, or the defaults and what is wrong with those that are given."""
    flags = given_flags(parsed) | {"set": parsed.set, "plugin": parsed.plugin}
    if parsed.paths:
        flags["models"] = [*parsed.paths, *(flags["models"] or [])]
    read = partial(load_settings, flags, parsed.config)
    try:
        return read(), []
    except StartupError as error:
        found = Diagnosis(severity="error", text=str(error), meaning="The server does not start.")
        return Settings(), [found]
