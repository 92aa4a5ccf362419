# SPDX-License-Identifier: Apache-2.0
"""The access log: a line of JSON for each answer, where the operator names a file for it."""

from __future__ import annotations

import os
import select
import stat
import sys
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
from gevent.monkey import get_original

from servekit.errors import StartupError
from servekit.frontend.http1.connection import Connection
from servekit.frontend.middleware.log_file import open_to_append, reopen

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.frontend.http.request_builder import HttpRequest
    from servekit.frontend.http.tls import TlsSocket
    from servekit.frontend.server.front_end import FrontEnd
    from servekit.frontend.server.management import Door
    from servekit.settings import Settings

    Answering = Connection  #: or an ``Exchange``, which stands where a connection does
else:
    Answering = object

__all__ = ["AccessLog", "Logged", "LoggedConnection", "open_access_log"]

MAX_LINES = 1000  #: that wait to be written
MAX_WAITING_BYTES = 1 << 20  #: that a slow reader may leave to be written
ID = b"X-Request-Id: "


class AccessLog:
    """Keeps lines for the next sweep, which writes them all, to a file with one system call.

    Several front-ends append to one file: one write is never split by another. Nobody waits for
    a reader that is slow: it loses lines.
    """

    def __init__(self, descriptor: int) -> None:
        """Write to *descriptor*, opened for appending."""
        self._descriptor = descriptor
        self._lines = 0
        self._waiting = bytearray()
        self._is_within_line = False  #: the last write ended there
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._most = sys.maxsize if is_file else select.PIPE_BUF

    def add(self, **members: Any) -> None:
        """Keep a line of *members*."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._waiting += msgspec.json.encode({"time": time} | members) + b"\n"
        self._lines += 1
        if self._lines >= MAX_LINES:
            self.write()

    def write(self) -> None:
        """Write what waits. A disk that is full costs its lines, and no request."""
        self._lines = 0
        while self._waiting and self._has_room():
            end = self._waiting.rfind(b"\n", 0, self._most) + 1
            try:
                count = os.write(self._descriptor, self._waiting[: end or self._most])
            except BlockingIOError:
                break
            except OSError:
                self._waiting[:] = b"\n" if self._is_within_line else b""
                self._is_within_line = False
                return
            self._is_within_line = not self._waiting.endswith(b"\n", 0, count)
            del self._waiting[:count]
        if len(self._waiting) > MAX_WAITING_BYTES:
            kept = self._waiting.find(b"\n") + 1 if self._is_within_line else 0
            del self._waiting[kept:]

    def _has_room(self) -> bool:
        """Say whether a write would not wait: that of a file never does."""
        if self._most == sys.maxsize:
            return True
        poll = get_original("select", "poll")()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Give the file back; processes that were forked keep it."""
        os.close(self._descriptor)


def open_access_log(settings: Settings, stdout: int | None = None) -> AccessLog | None:
    """Return the log that *settings* ask for; ``None`` where they ask for none.

    :param stdout: the standard output of the server, where it is that.
    :raises StartupError: its file cannot be opened.
    """
    if not settings.access_log:
        return None
    try:
        if stdout is not None:
            return AccessLog(reopen(stdout))
        return AccessLog(open_to_append(settings.access_log))
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
