# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 requests to the front-ends, over their Unix socket. Runs in: the gRPC process."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from servekit_oip.grpc.http_connection import (
    Connection,
    ConnectionCut,
    ConnectionStale,
    FrontEndAnswer,
)

__all__ = ["HttpClient"]

TRIES: Final = 3  #: connections for one request


class HttpClient:
    """Makes requests; connections are kept for the next ones."""

    def __init__(self, path: str, keep_alive_s: float) -> None:
        """Connect to the socket at *path* when there is something to ask.

        :param keep_alive_s: how long an idle connection is used again.
        """
        self._path = path
        self._keep_alive_s = keep_alive_s
        self._idle: list[Connection] = []

    async def ask(self, head: bytes, body: bytes = b"") -> FrontEndAnswer:
        """Return the response to a request; if it is cancelled, so is what the server does.

        :param head: ends in an empty line.
        :raises ConnectionError: no front-end answers.
        """
        for _ in range(TRIES):
            connection = self.take() or await self._connect()
            try:
                response = await connection.ask(head, body)
            except ConnectionStale:
                continue
            except asyncio.CancelledError:
                connection.abort()
                raise
            if response.pieces is None:
                self.keep(connection)
            return response
        raise ConnectionCut("the front-ends close the connection")

    def close(self) -> None:
        """Close the idle connections."""
        for connection in self._idle:
            connection.abort()

    def take(self) -> Connection | None:
        """Return an idle connection, if there is one."""
        oldest = monotonic() - self._keep_alive_s
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: Connection(self.keep), self._path)
        return connection

    def keep(self, connection: Connection) -> None:
        """Keep *connection* for the next request, if it is open."""
        if connection.is_open:
            connection.idle_since = monotonic()
            self._idle.append(connection)
