# SPDX-License-Identifier: Apache-2.0
"""The access log: a line of JSON for each answer, where the operator names a file for it."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from servekit.errors import StartupError
from servekit.frontend.connection import Connection

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.frontend.collecting import HttpRequest
    from servekit.frontend.management import Door
    from servekit.frontend.server import FrontEnd
    from servekit.frontend.tls import TlsSocket
    from servekit.settings import Settings

    Answering = Connection  #: or an ``Exchange``, which stands where a connection does
else:
    Answering = object

__all__ = ["AccessLog", "Logged", "LoggedConnection", "open_access_log"]

MAX_LINES = 1000  #: that wait to be written
ID = b"X-Request-Id: "


class AccessLog:
    """Keeps lines for the next sweep, which writes them all with one system call.

    Several front-ends append to one file: a write is never parted by another's.
    """

    def __init__(self, descriptor: int) -> None:
        """Write to *descriptor*, opened for appending."""
        self._descriptor = descriptor
        self._lines: list[bytes] = []

    def add(self, **members: Any) -> None:
        """Keep a line of *members*."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._lines.append(msgspec.json.encode({"time": time} | members))
        if len(self._lines) >= MAX_LINES:
            self.write()

    def write(self) -> None:
        """Write what waits. A disk that is full costs its lines, and no request."""
        if self._lines:
            lines, self._lines = self._lines, []
            with contextlib.suppress(OSError):
                os.write(self._descriptor, b"\n".join(lines) + b"\n")

    def close(self) -> None:
        """Give the file back; processes that were forked keep it."""
        os.close(self._descriptor)


def open_access_log(settings: Settings) -> AccessLog | None:
    """Return the log that *settings* ask for; ``None`` where they ask for none.

    :raises StartupError: its file cannot be opened.
    """
    if not settings.access_log:
        return None
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        return AccessLog(os.open(settings.access_log, flags, 0o640))
    except OSError as error:
        raise StartupError(f"access_log {settings.access_log}: {error.strerror}") from error


class Logged(Answering):
    """Mixed into what answers requests: each answer is a line of the access log."""

    _log: AccessLog
    _asked: tuple[bytes, bytes, str, float] | None  #: method, target, version, since when

    def begin(self, request: HttpRequest) -> None:
        """Note what is asked for."""
        self._asked = (request.method, request.target, request.version, monotonic())
        super().begin(request)

    def answer(
        self, head: bytes, body: bytes | memoryview, release: Callable[[], None] | None = None
    ) -> None:
        """Log the answer, once: one that is compressed comes by again."""
        if self._asked is not None and not self.is_closed:
            _, _, rest = head.partition(ID)
            self._add(int(head[9:12]), rest.partition(b"\r\n")[0].decode("latin-1"), len(body))
        super().answer(head, body, release)

    def end_stream(self) -> None:
        """Log an answer that came in pieces, unless its end was an error."""
        if self._asked is not None and self.stream is not None:
            self._add(200, self.stream.task.request_id, self.stream.written)
        super().end_stream()

    def answer_problem(self, error: ServekitError, request_id: str) -> None:
        """Log the refusal, also of what was never a whole request."""
        if not self.is_closed:
            self._add(error.status, request_id)
        super().answer_problem(error, request_id)

    def close(self) -> None:
        """Log that nobody waited for the answer."""
        if self._asked is not None:
            self._add(None, "")
        super().close()

    def _add(self, status: int | None, request_id: str, size: int | None = None) -> None:
        method, target, version, since = self._asked or (b"", self.target, "", None)
        self._asked = None
        self._log.add(
            peer=self.peer[0] if self.peer else "",
            method=method.decode("latin-1"),
            version=version,
            path=target.partition(b"?")[0].decode("latin-1"),
            status=status,
            bytes=size,
            duration_ms=None if since is None else round((monotonic() - since) * 1e3, 3),
            request_id=request_id,
        )


class LoggedConnection(Logged, Connection):
    """A connection whose answers are lines of the access log."""

    def __init__(
        self, sock: socket.socket | TlsSocket, peer: Any, front_end: FrontEnd | Door, log: AccessLog
    ) -> None:
        """Start reading *sock*, as ``Connection`` does."""
        self._log, self._asked = log, None
        super().__init__(sock, peer, front_end)
