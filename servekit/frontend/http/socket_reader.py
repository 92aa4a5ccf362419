# SPDX-License-Identifier: Apache-2.0
"""The reading half of a connection: calls its owner when data has arrived."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Protocol

from servekit.frontend.http.closed import CLOSED
from servekit.frontend.http.tls import TlsSocket

if TYPE_CHECKING:
    from servekit.frontend.http.upload import Upload

__all__ = ["SocketReader"]

READ = 1
READ_BYTES = 65_536  #: at most, at once
HEAD_BYTES = 4096  #: at most, after a large body: the next one goes straight to shared memory, too
NOT_LINGERING = -1


class SocketOwner(Protocol):
    """The connection that a socket belongs to."""

    def on_data(self, data: bytes) -> None:
        """Handle *data*, which has been read."""

    def on_end(self) -> None:
        """Handle a client that has shut its side down."""

    def close(self) -> None:
        """Close: the connection is broken, or its client does not stop sending."""


class SocketReader:
    """Reads pieces of data, or a large body straight into shared memory."""

    __slots__ = (
        *("_may_discard", "_most", "_owner", "_socket", "_watcher"),
        *("is_at_end", "is_reading", "upload"),
    )

    def __init__(self, sock: socket.socket | TlsSocket, loop: Any, owner: SocketOwner) -> None:
        """Read the non-blocking *sock* from now on."""
        self._socket = sock
        self._owner: SocketOwner = owner
        self._most = READ_BYTES  #: bytes of the next piece
        self._may_discard = NOT_LINGERING  #: else bytes that may still be thrown away
        self.upload: Upload | None = None  #: receives the data
        self.is_at_end = False  #: the client will send no more
        self.is_reading = False
        self._watcher = loop.io(sock.fileno(), READ)
        self.resume()

    def pause(self) -> None:
        """Leave the client's data to the kernel."""
        if self.is_reading:
            self.is_reading = False
            self._watcher.stop()

    def resume(self) -> None:
        """Read again."""
        if not (self.is_reading or self.is_at_end):
            self.is_reading = True
            self._watcher.start(self.read)

    def close(self) -> None:
        """Read no more; the socket is the owner's to close."""
        self.is_reading = False
        self._watcher.stop()
        self._watcher.close()
        self._owner = CLOSED

    def read(self) -> None:
        """Read what has arrived."""
        if self.upload is not None:
            self._fill(self.upload)
            return
        try:
            data = self._socket.recv(self._most)
        except BlockingIOError:
            return
        except OSError:
            self._owner.close()
            return
        self._most = READ_BYTES
        if not data:
            self._end()
        elif self._may_discard == NOT_LINGERING:
            self._owner.on_data(data)
        else:
            self._discard(len(data))

    def _end(self) -> None:
        self.is_at_end = True
        self.pause()
        self._owner.on_end()

    def _fill(self, upload: Upload) -> None:
        try:
            is_whole = upload.receive(self._socket)
        except EOFError:
            self._end()
        except OSError:
            self._owner.close()
        else:
            if is_whole:
                self.upload = None
            upload.on_received(is_whole)
            if not is_whole:
                return
            if not isinstance(self._socket, TlsSocket):
                self._most = HEAD_BYTES
            elif self.is_reading:
                self.read()  # no event reports data that is decrypted already

    def discard(self, limit: int) -> None:
        """Throw away what the client still sends; close after *limit* bytes.

        A client that is still sending gets the chance to read the response.
        """
        self._may_discard = limit
        self.resume()

    def linger(self, limit: int) -> None:
        """Say that nothing more will be sent, then ``discard``."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._owner.close()
        else:
            self.discard(limit)

    def _discard(self, size: int) -> None:
        self._may_discard = max(0, self._may_discard - size)
        if not self._may_discard:
            self._owner.close()
