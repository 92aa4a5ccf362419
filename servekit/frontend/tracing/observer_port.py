# SPDX-License-Identifier: Apache-2.0
"""The way from a front-end to the observer. It never blocks."""

from __future__ import annotations

import socket
from errno import EMSGSIZE
from time import monotonic
from typing import TYPE_CHECKING

from gevent.monkey import get_original
from msgspec import msgpack

if TYPE_CHECKING:
    from pathlib import Path

    from servekit.extension.events import LifeEvent

__all__ = ["ObserverPort"]

RETRY_S = 1.0  #: between two attempts to reach the observer


class ObserverPort:
    """Sends events to the observer; those that it does not take at once are dropped."""

    def __init__(self, path: Path) -> None:
        """Connect to *path* when there is something to send."""
        self._path = str(path)
        self._socket: socket.socket | None = None
        self._retry_at = 0.0

    def send(self, *events: LifeEvent) -> bool:
        """Send *events*, as one message if they are not too large.

        :return: whether the observer has taken all of them.
        """
        try:
            if self._socket is None and monotonic() >= self._retry_at:
                self._connect()
            return self._socket is not None and self._socket.send(msgpack.encode(events)) > 0
        except BlockingIOError:  # the observer does not keep up
            return False
        except OSError as error:
            if error.errno == EMSGSIZE and len(events) > 1:
                return min([self.send(each) for each in events])
            was_open = self._socket is not None
            self.close()  # it has ended; after a reload, another one accepts at the same path
            return was_open and monotonic() >= self._retry_at and self.send(*events)

    def close(self) -> None:
        """Close the connection; the next event opens another one."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _connect(self) -> None:
        self._retry_at = monotonic() + RETRY_S
        found = get_original("socket", "socket")(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        found.setblocking(False)
        try:
            found.connect(self._path)
        except OSError:  # it has not started yet
            found.close()
        else:
            self._socket = found
