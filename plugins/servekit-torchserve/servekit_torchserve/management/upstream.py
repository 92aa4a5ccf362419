# SPDX-License-Identifier: Apache-2.0
"""Requests to the server, at its private sockets: what is asked of it, and what it answers."""

from __future__ import annotations

from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from servekit.extension import UnixConnection
from servekit_torchserve.management.errors import (
    AlreadyRegistered,
    CallFailed,
    ManagementError,
    ModelInvalid,
    NoMemoryLeft,
    ServerSilent,
    UnknownModel,
    WrongParameter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["MANAGE_SOCKET", "TIMEOUT_S", "Upstream", "UpstreamError", "path_of"]

MANAGE_SOCKET: Final = "manage.sock"  #: in the run directory; only the server's user reaches it
UNPROCESSABLE: Final = 422
WORKER_STEPS: Final = ("load", "scale")  #: steps of operations in which workers start
TIMEOUT_S: Final = 700.0  #: longer than an operation is waited for
FAILURES: Final[Mapping[int, type[ManagementError]]] = {
    403: WrongParameter,
    404: UnknownModel,
    409: AlreadyRegistered,
    422: WrongParameter,
    503: ServerSilent,
    507: NoMemoryLeft,
}


class UpstreamError(Exception):
    """The server has refused something, or an operation has failed."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        """Say what the problem document says."""
        super().__init__(str(problem.get("detail") or problem.get("title") or status))
        self.status = status
        #: the steps of the operation, if it had begun
        self.steps: list[str] = [
            step["name"] for step in (problem.get("operation") or {}).get("steps", ())
        ]

    def as_error(self) -> ManagementError:
        """Return the error that a client of TorchServe gets."""
        if self.status != UNPROCESSABLE or not self.steps:
            return FAILURES.get(self.status, CallFailed)(str(self))
        if self.steps[-1] in WORKER_STEPS:
            return CallFailed(f"the workers cannot be started: {self}")
        return ModelInvalid(str(self))


class Upstream:
    """One of the sockets of the server."""

    def __init__(self, path: Path) -> None:
        """Connect to *path* for each request."""
        self._path = path

    def ask(
        self,
        method: str,
        target: str,
        value: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the decoded JSON of the response.

        :param value: sent as JSON, unless it is ``None``.
        :raises UpstreamError: the status is an error.
        :raises ServerSilent: the server does not answer.
        """
        body = b"" if value is None else msgspec.json.encode(value)
        fields = {"Content-Type": "application/json"} if body else {}
        status, _, content = self.fetch(method, target, body, fields | dict(headers or {}))
        if status >= 400:
            raise UpstreamError(status, _problem(content))
        return msgspec.json.decode(content) if content else None

    def fetch(
        self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, str, bytes]:
        """Return the status, the media type and the body of a response.

        :raises ServerSilent: the server does not answer.
        """
        connection = UnixConnection(self._path, TIMEOUT_S)
        try:
            connection.request(method, target, body or None, dict(headers or {}))
            response = connection.getresponse()
            media_type = response.headers.get("Content-Type", "application/octet-stream")
            return response.status, media_type, response.read()
        except (OSError, HTTPException) as error:
            raise ServerSilent(f"the server does not answer: {error}") from error
        finally:
            connection.close()


def path_of(*parts: str) -> str:
    """Return the path of *parts*: ``/models/NAME``."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _problem(content: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {"detail": content[:200].decode("utf-8", "replace")}
