# SPDX-License-Identifier: Apache-2.0
"""The access log: a line of JSON for each response, in the file that the operator names."""

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
from servekit.ipc.trace_context import TRACEPARENT, trace_id_of
from servekit.system.appending import open_to_append, reopen

if TYPE_CHECKING:
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest, HttpResponse
    from servekit.extension.middleware import Proceed
    from servekit.frontend.http.client_address import ClientAddresses
    from servekit.settings import Settings

__all__ = ["AccessLog", "AccessLogging", "open_access_log"]

MAX_LINES = 1000  #: collected before they are written
MAX_WAITING_BYTES = 1 << 20  #: collected for a reader that is slow


class AccessLog:
    """Collects lines and writes them together; to a file with one system call.

    Several front-ends append to one file: one write is never split by another. No request waits
    for a slow reader: lines are dropped.
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
        """Collect a line of *members*."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._waiting += msgspec.json.encode({"time": time} | members) + b"\n"
        self._lines += 1
        if self._lines >= MAX_LINES:
            self.write()

    def write(self) -> None:
        """Write what was collected. If the disk is full, lines are lost."""
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
        """Return whether a write would not block; one to a file never does."""
        if self._most == sys.maxsize:
            return True
        poll = get_original("select", "poll")()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close the file in this process; those that were forked keep it open."""
        os.close(self._descriptor)


def open_access_log(settings: Settings, stdout: int | None = None) -> AccessLog | None:
    """Return the log that *settings* ask for, or ``None``.

    :param stdout: descriptor of the server's standard output, if the log goes there.
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
    """Middleware that adds a line to the access log for each request.

    Inside of compression, since a line has the size of the body before it.
    """

    def __init__(self, log: AccessLog, clients: ClientAddresses) -> None:
        """Add lines to *log*, with the addresses that *clients* finds."""
        self._log, self._clients = log, clients

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Add a line when the response has been sent, or the client has disconnected."""
        peer = self._clients.client_of(exchange.peer, request.headers)
        line = LogLine(self._log, exchange, request, peer)
        exchange.add_filter(line.note)
        exchange.add_observer(line.add)
        proceed(exchange, request)


class LogLine:
    """A line, until the request has its response."""

    __slots__ = ("_began", "_exchange", "_log", "_peer", "_request", "_size")

    def __init__(self, log: AccessLog, exchange: Exchange, request: HttpRequest, peer: str) -> None:
        self._peer = peer
        self._log, self._exchange, self._request = log, exchange, request
        self._began = monotonic()
        self._size: int | None = None  #: bytes of the body; ``None``: the request was refused

    def note(self, response: HttpResponse) -> HttpResponse:
        """Note the size of the body."""
        if response.error is None:
            self._size = 0 if self._request.method == b"HEAD" else len(response.body)
        return response

    def add(self, status: int | None, sent: int) -> None:
        """Add the line; *sent* is the size of a body that was streamed."""
        request = self._request
        is_whole = bool(request.version)
        self._log.add(
            peer=self._peer,
            method=request.method.decode("latin-1") if is_whole else "",
            version=request.version,
            path=request.target.partition(b"?")[0].decode("latin-1"),
            status=status,
            bytes=None if status is None or self._size is None else self._size or sent,
            duration_ms=round((monotonic() - self._began) * 1e3, 3) if is_whole else None,
            request_id=request.request_id,
            **_trace(request),
            **self._model(),
            **({"identity": request.identity.name} if request.identity is not None else {}),
        )

    def _model(self) -> dict[str, str]:
        """Return the model that answered, if one did."""
        route, version = self._request.route, self._exchange.model_version
        if route is None or not version:
            return {}
        return {"model": route.row.name, "model_version": version.decode()}


def _trace(request: HttpRequest) -> dict[str, str]:
    """Return the trace that *request* belongs to, if it belongs to one."""
    given = request.headers.get(TRACEPARENT.encode())
    trace_id = trace_id_of(given.decode("latin-1")) if given is not None else ""
    return {"trace_id": trace_id} if trace_id else {}
