# SPDX-License-Identifier: Apache-2.0
"""Asks the management of one server: over its private socket, or over TCP with a token."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from servekit.cli.parsing.exit_status import PROBLEM_FOUND
from servekit.errors import StartupError
from servekit.settings.tokens import MANAGE_VARIABLE, TOKEN
from servekit.supervisor.os.run_directory import MANAGE_SOCKET
from servekit.system.unix_http import UnixConnection

__all__ = [
    "ManagedServer",
    "NoServer",
    "NotRunning",
    "RequestRefused",
    "model_path",
    "server_at",
    "server_here",
]

PATIENCE_S = 30.0


class NoServer(StartupError):
    """No such server runs, or it does not answer."""

    exit_status = PROBLEM_FOUND


class NotRunning(NoServer):
    """No server of this user runs here."""


class RequestRefused(StartupError):
    """The server answers with an error."""

    exit_status = PROBLEM_FOUND


def model_path(name: str, *more: str) -> str:
    """Return ``/models/NAME`` and the parts below it."""
    return "/".join(["/models", *(quote(part, safe="") for part in (name, *more))])


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedServer:
    """A running server, as its operator reaches it."""

    shown: str  #: "the server with pid 4711"
    address: str  #: path of its socket, or a URL
    connect: Callable[[], HTTPConnection]
    headers: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""  #: before all paths, if a proxy needs one
    pid: int | None = None  #: known if it runs here
    run_dir: Path | None = None

    def ask(
        self, path: str, method: str = "GET", body: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        """Return the status and the document of the answer.

        :raises NoServer: it does not answer, or not with JSON.
        """
        status, answer, _ = self._request(path, method, body)
        try:
            return status, json.loads(answer)
        except ValueError as error:
            raise NoServer(f"{self.shown} does not answer {path} with JSON: {error}") from error

    def get(self, path: str) -> Any:
        """Return the document at *path*.

        :raises RequestRefused: there is none for us.
        :raises NoServer: as ``ask``.
        """
        status, document = self.ask(path)
        self.check(status, document)
        return document

    def text(self, path: str) -> str:
        """Return the text at *path*.

        :raises NoServer: it does not answer.
        """
        return self._request(path, "GET", None)[1].decode()

    def date(self) -> str:
        """Return the time on the clock of the server, as HTTP has it.

        :raises NoServer: it does not answer.
        """
        return self._request("/ping/live", "GET", None)[2].get("Date", "")

    def check(self, status: int, document: Any) -> None:
        """Check that *status* is not that of an error.

        :raises RequestRefused: it is; the message has what the server says.
        """
        if status < 400:
            return
        reason = document.get("detail") or document.get("title", "") if document else ""
        hint = "; set SERVEKIT_MANAGE_TOKEN to a token for management" if status == 401 else ""
        if not self.run_dir and reason.startswith("no route has"):
            hint = "; is this the address of its --manage?"
        raise RequestRefused(f"{self.shown} answers {status}: {reason}{hint}")

    def _request(
        self, path: str, method: str, body: Mapping[str, Any] | None
    ) -> tuple[int, bytes, Message]:
        connection = self.connect()
        headers = dict(self.headers)
        encoded = None if body is None else json.dumps(body).encode()
        if encoded is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self.prefix + path, encoded, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        except (OSError, HTTPException) as error:
            reason = getattr(error, "strerror", None) or error or type(error).__name__
            place = f" at {self.address}" if self.run_dir else ""
            text = f"{self.shown} does not answer{place}: {reason}"
            raise NoServer(text) from error
        finally:
            connection.close()


def server_here(pid: int, run_dir: Path) -> ManagedServer:
    """Return the server of this user with the run directory *run_dir*."""
    path = run_dir / MANAGE_SOCKET
    return ManagedServer(
        shown=f"the server with pid {pid}",
        address=str(path),
        connect=partial(UnixConnection, path, PATIENCE_S),
        pid=pid,
        run_dir=run_dir,
    )


def server_at(url: str) -> ManagedServer:
    """Return the server whose management is at *url*, with the token of the environment.

    :raises NoServer: the URL or the token is not valid.
    """
    parts = urlsplit(url)
    kinds = {"http": HTTPConnection, "https": HTTPSConnection}
    try:
        kind, host, port = kinds[parts.scheme], parts.hostname or "", parts.port
    except (KeyError, ValueError) as error:
        raise NoServer(f"--server: {url!r} is not http://HOST:PORT or https://HOST:PORT") from error
    if not host:
        raise NoServer(f"--server: {url!r} names no host")
    token = os.environ.get(MANAGE_VARIABLE, "")
    if token and not TOKEN.fullmatch(os.fsencode(token)):
        raise NoServer(f"{MANAGE_VARIABLE}: not a token of letters, digits and -._~+/")
    return ManagedServer(
        shown=f"the server at {parts.scheme}://{parts.netloc.rpartition('@')[2]}",
        address=url,
        connect=partial(kind, host, port, timeout=PATIENCE_S),
        headers={"Authorization": f"Bearer {token}"} if token else {},
        prefix=parts.path.rstrip("/"),
    )
