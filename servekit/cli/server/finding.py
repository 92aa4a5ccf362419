# SPDX-License-Identifier: Apache-2.0
"""Finds the server that a command asks: one of this user that runs here, or any by its URL."""

import argparse
import os
import tempfile
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from servekit.cli.server.connection import PATIENCE_S, ManagedServer, NoServer, UnixConnection
from servekit.settings import load_settings
from servekit.settings.tokens import MANAGE_VARIABLE
from servekit.supervisor.os.run_directory import MANAGE_SOCKET, running

__all__ = ["ABOUT", "add_arguments", "find_server"]

#: for the help of every command
ABOUT = """\
It asks the server over the private socket in its run directory, as the user of the server. --server
names another one, whose management listens on TCP; SERVEKIT_MANAGE_TOKEN is then the token.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which server, and how to print what it says."""
    parser.add_argument("--run-dir", metavar="DIR", help="--run-dir of the server; default: TMPDIR")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--pid", type=int, metavar="N", help="process id of the server, if several run"
    )
    which.add_argument("--server", metavar="URL", help="management of a server, by its --manage")
    parser.add_argument("--json", action="store_true", help="print JSON")


def find_server(parsed: argparse.Namespace) -> ManagedServer:
    """Return the one server that the arguments name.

    :raises NoServer: no server runs here, or several do, or the URL is not valid.
    """
    if parsed.server is not None:
        return _by_url(parsed.server)
    parent = load_settings({"run_dir": parsed.run_dir}).run_dir
    found = running(parent)
    chosen = {pid: path for pid, path in found.items() if parsed.pid in (None, pid)}
    if len(chosen) == 1:
        return _by_directory(*chosen.popitem())
    raise NoServer(_complaint(Path(parent or tempfile.gettempdir()), found, parsed.pid))


def _by_directory(pid: int, run_dir: Path) -> ManagedServer:
    path = run_dir / MANAGE_SOCKET
    return ManagedServer(
        shown=f"the server with pid {pid}",
        address=str(path),
        connect=partial(UnixConnection, path),
        pid=pid,
        run_dir=run_dir,
    )


def _by_url(url: str) -> ManagedServer:
    parts = urlsplit(url)
    kinds = {"http": HTTPConnection, "https": HTTPSConnection}
    try:
        kind, host, port = kinds[parts.scheme], parts.hostname or "", parts.port
    except (KeyError, ValueError) as error:
        raise NoServer(f"--server: {url!r} is not http://HOST:PORT or https://HOST:PORT") from error
    if not host:
        raise NoServer(f"--server: {url!r} names no host")
    token = os.environ.get(MANAGE_VARIABLE, "")
    return ManagedServer(
        shown=f"the server at {parts.scheme}://{host}",
        address=url,
        connect=partial(kind, host, port, timeout=PATIENCE_S),
        headers={"Authorization": f"Bearer {token}"} if token else {},
        prefix=parts.path.rstrip("/"),
    )


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
