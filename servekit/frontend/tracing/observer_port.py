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
    from collections.abc import Sequence
    from pathlib import Path

    from servekit.extension.events import BatchServed
    from servekit.ipc.trace_notes import TraceNotes

__all__ = ["MessageTooLarge", "ObserverPort"]

RETRY_S = 1.0  #: between two attempts to reach the observer


class MessageTooLarge(Exception):
    """The kernel does not take a message of this size."""


class ObserverPort:
    """Sends messages to the observer; those that it does not take at once are dropped."""

    def __init__(self, path: Path) -> None:
        """Connect to *path* when there is something to send."""
        self._path = str(path)
        self._socket: socket.socket | None = None
        self._retry_at = 0.0

    def send(self, message: TraceNotes | Sequence[BatchServed]) -> bool:
        """Send *message*.

        :return: whether the observer has taken it.
        :raises MessageTooLarge: it never will.
        """
        try:
            if self._socket is None and monotonic() >= self._retry_at:
                self._connect()
            return self._socket is not None and self._socket.send(msgpack.encode(message)) > 0
        except BlockingIOError:  # the observer does not keep up
            return False
        except OSError as error:
            if error.errno == EMSGSIZE:
                raise MessageTooLarge from None
            was_open = self._socket is not None
            self.close()  # it has ended; after a reload, another one accepts at the same path
            return was_open and monotonic() >= self._retry_at and self.send(message)

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
