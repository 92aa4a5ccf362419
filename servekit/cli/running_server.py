# SPDX-License-Identifier: Apache-2.0
"""Finds a server of this user that runs here, and asks it over its private socket."""

import argparse
import json
import socket
import tempfile
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from servekit.cli.parsing.exit_status import PROBLEM_FOUND
from servekit.errors import StartupError
from servekit.settings import load_settings
from servekit.supervisor.os.run_directory import MANAGE_SOCKET, running

__all__ = ["NoServer", "RunningServer", "add_arguments", "find_server"]

PATIENCE_S = 30.0


class NoServer(StartupError):
    """No such server runs here, or it does not answer."""

    exit_status = PROBLEM_FOUND


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that runs here."""

    pid: int
    run_dir: Path

    def ask(self, path: str, method: str = "GET") -> tuple[int, Any]:
        """Return the status and the document that its management answers with.

        :raises NoServer: it does not answer.
        """
        connection = _UnixConnection(self.run_dir / MANAGE_SOCKET)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or error or type(error).__name__
            text = f"the server with pid {self.pid} does not answer at {connection.path}: {reason}"
            raise NoServer(text) from error
        finally:
            connection.close()


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which server, and how to print what it says."""
    parser.add_argument("--run-dir", metavar="DIR", help="--run-dir of the server; default: TMPDIR")
    parser.add_argument(
        "--pid", type=int, metavar="N", help="process id of the server, if several run"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def find_server(parsed: argparse.Namespace) -> RunningServer:
    """Return the one server that the arguments name.

    :raises NoServer: no server runs here, or several do.
    """
    parent = load_settings({"run_dir": parsed.run_dir}).run_dir
    found = running(parent)
    chosen = {pid: path for pid, path in found.items() if parsed.pid in (None, pid)}
    if len(chosen) == 1:
        return RunningServer(*chosen.popitem())
    raise NoServer(_complaint(Path(parent or tempfile.gettempdir()), found, parsed.pid))


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
