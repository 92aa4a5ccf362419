# SPDX-License-Identifier: Apache-2.0
"""HTTP connections with limits for slow clients: none keeps its place for long."""

from __future__ import annotations

import errno
import io
from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import gevent
from gevent.pool import Pool
from gevent.pywsgi import WSGIHandler, WSGIServer

if TYPE_CHECKING:
    from socket import socket

    from flask import Flask

__all__ = ["ClientLimits", "LimitedServer"]

MAX_CONNECTIONS: Final = 100  #: at each address
SHORTEST_S: Final = 0.001
TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class ClientLimits(NamedTuple):
    """How long clients are waited for, in seconds: the settings of these names."""

    header_timeout: float
    body_timeout: float
    send_timeout: float
    keep_alive: float


class LimitedReader(io.RawIOBase):
    """Reads a client until a deadline, however slowly the bytes arrive."""

    def __init__(self, connection: socket) -> None:
        """Read *connection*; call ``allow`` first."""
        self._connection, self._deadline = connection, 0.0
        self.was_late = False  #: a deadline has passed while the client was waited for

    def allow(self, seconds: float) -> None:
        """Set the deadline: *seconds* from now."""
        self._deadline = monotonic() + seconds

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive some bytes; 0 at the end.

        :raises TimeoutError: the deadline has passed.
        """
        try:
            self._connection.settimeout(max(self._deadline - monotonic(), SHORTEST_S))
            return self._connection.recv_into(buffer)
        except TimeoutError:
            self.was_late = True
            raise


class LimitedHandler(WSGIHandler):  # type: ignore[misc]  # gevent has no types
    """One connection. A header section, and a body, must arrive within their limits."""

    server: LimitedServer
    rfile: io.BufferedReader

    def __init__(self, connection: socket, address: Any, server: LimitedServer) -> None:
        """Serve *connection*."""
        super().__init__(connection, address, server)
        self._limits, self._is_first = server.limits, True
        self._reader = LimitedReader(connection)
        self.rfile.close()
        self.rfile = io.BufferedReader(self._reader)

    def read_requestline(self) -> str:
        """Wait for a request, and read its first line."""
        self._reader.allow(self._longest_wait())
        self._is_first = False
        if not self.rfile.peek(1):
            return ""
        self._reader.allow(self._limits.header_timeout)
        return str(super().read_requestline())

    def _longest_wait(self) -> float:
        """Return how long a client may be silent: not for long while many others are connected."""
        limits = self._limits
        if self._is_first or self.server.is_crowded:
            return min(limits.header_timeout, limits.keep_alive or limits.header_timeout)
        return limits.keep_alive

    def read_request(self, raw_requestline: str) -> bool:
        """Read the rest of the header section; the body has a limit to itself."""
        is_read = bool(super().read_request(raw_requestline))
        self._reader.allow(self._limits.body_timeout)
        return is_read

    def _handle_client_error(self, error: Exception) -> Any:
        """Return the response to a request that cannot be read."""
        if isinstance(error, TimeoutError):
            return "408", TOO_SLOW
        return super()._handle_client_error(error)

    def _sendall(self, data: bytes) -> None:
        self.socket.settimeout(self._limits.send_timeout)
        try:
            super()._sendall(data)
        except TimeoutError as error:  # pywsgi tries no further response after this one
            raise BrokenPipeError(errno.EPIPE, "the client reads nothing") from error

    def handle_one_request(self) -> Any:
        """Answer a request; after one whose body did not arrive in time, the connection ends."""
        result = super().handle_one_request()
        return None if result is True and self._reader.was_late else result


class LimitedServer(WSGIServer):  # type: ignore[misc]  # gevent has no types
    """An address where slow clients lose their connections."""

    handler_class = LimitedHandler

    def __init__(
        self, address: tuple[str, int], app: Flask, limits: ClientLimits, **tls: str | None
    ) -> None:
        """Listen at *address*, over TLS if *tls* has a certificate."""
        pool = Pool(MAX_CONNECTIONS)
        super().__init__(address, app, spawn=pool, log=None, error_log=None, **tls)
        self.limits = limits

    @property
    def is_crowded(self) -> bool:
        """Whether half of the connections that may be open are."""
        return bool(self.pool.free_count() < MAX_CONNECTIONS // 2)

    def wrap_socket_and_handle(self, connection: socket, address: Any) -> None:
        """Serve *connection* over TLS, unless the client is too slow to agree on it."""
        try:
            with gevent.Timeout(self.limits.header_timeout, TimeoutError("no handshake")):
                secure = self.wrap_socket(connection, **self.ssl_args)
        except OSError:
            return
        with closing(secure):
            self.handle(secure, address)
