# SPDX-License-Identifier: Apache-2.0
"""Finds the server that a command asks: one of this user that runs here, or any by its URL."""

import argparse
import tempfile
from pathlib import Path
from shlex import quote

from servekit.cli.server.connection import (
    ManagedServer,
    NoServer,
    NotRunning,
    server_at,
    server_here,
)
from servekit.settings import load_settings
from servekit.settings.arguments import count
from servekit.supervisor.os.run_directory import running

__all__ = ["ABOUT", "add_arguments", "find_server", "given_options"]

#: for the help of every command
ABOUT = """\
It talks to the server through its private socket, so run it as the server's user. For a server
elsewhere, pass --server URL and set SERVEKIT_MANAGE_TOKEN.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which server, and how to print what it says."""
    parser.add_argument("--run-dir", metavar="DIR", help="--run-dir of the server; default: TMPDIR")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--pid", type=count, metavar="N", help="process id of the server, if several run"
    )
    which.add_argument("--server", metavar="URL", help="address of its management, its --manage")
    parser.add_argument("--json", action="store_true", help="print JSON")


def find_server(parsed: argparse.Namespace) -> ManagedServer:
    """Return the one server that the arguments name.

    :raises NotRunning: no server runs here.
    :raises NoServer: several run here, or not the one with this pid, or the URL is not valid.
    """
    if parsed.server is not None:
        return server_at(parsed.server)
    parent = load_settings({"run_dir": parsed.run_dir}).run_dir
    found = running(parent)
    chosen = {pid: path for pid, path in found.items() if parsed.pid in (None, pid)}
    if len(chosen) == 1:
        return server_here(*chosen.popitem())
    complaint = _complaint(Path(parent or tempfile.gettempdir()), found, parsed.pid)
    raise (NoServer if found else NotRunning)(complaint)


def given_options(parsed: argparse.Namespace) -> str:
    """Return the options by which another command finds the same server, with a blank before each.

    They are those that were given: `` --run-dir /run/servekit --pid 4711``.
    """
    given = {"--run-dir": parsed.run_dir, "--pid": parsed.pid, "--server": parsed.server}
    return "".join(f" {flag} {quote(str(value))}" for flag, value in given.items() if value)


def _complaint(parent: Path, found: dict[int, Path], pid: int | None) -> str:
    if not parent.is_dir():
        return f"{parent}: no such directory, so no server has its run directory there"
    if not found:
        which = "no server" if pid is None else f"no server with pid {pid}"
        return f"{which} of this user has its run directory in {parent}; --run-dir names another"
    shown = ", ".join(f"{each} ({path})" for each, path in sorted(found.items()))
    if pid is not None:
        return f"no server with pid {pid} has its run directory in {parent}; running: {shown}"
    return f"{len(found)} servers run here, choose one with --pid: {shown}"
