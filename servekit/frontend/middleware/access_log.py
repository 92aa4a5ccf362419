# SPDX-License-Identifier: Apache-2.0
"""The access log: a line of JSON for each answer, where the operator names a file for it."""

from __future__ import annotations

import os
import select
import stat
import sys
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
from gevent.monkey import get_original

from servekit.errors import StartupError
from servekit.frontend.middleware.log_file import open_to_append, reopen

if TYPE_CHECKING:
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Proceed
    from servekit.settings import Settings

__all__ = ["AccessLog", "AccessLogging", "open_access_log"]

MAX_LINES = 1000  #: that wait to be written
MAX_WAITING_BYTES = 1 << 20  #: that a slow reader may leave to be written


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


class AccessLogging:
    """Middleware that adds a line to the access log for each request."""

    def __init__(self, log: AccessLog) -> None:
        """Add lines to *log*."""
        self._log = log

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Have a line added once the response is sent, or the client has gone."""
        exchange.add_observer(partial(self._add, exchange.peer, request, monotonic()))
        proceed(exchange, request)

    def _add(
        self, peer: Any, request: HttpRequest, since: float, status: int | None, size: int
    ) -> None:
        is_whole = bool(request.version)
        self._log.add(
            peer=peer[0] if peer else "",
            method=request.method.decode("latin-1") if is_whole else "",
            version=request.version,
            path=request.target.partition(b"?")[0].decode("latin-1"),
            status=status,
            bytes=None if status is None or not is_whole else size,
            duration_ms=round((monotonic() - since) * 1e3, 3) if is_whole else None,
            request_id=request.request_id if status is not None else "",
        )
