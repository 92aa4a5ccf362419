# SPDX-License-Identifier: Apache-2.0
"""The body of a streamed HTTP/1.1 response, in chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.http.writer import MAX_HELD_BYTES

if TYPE_CHECKING:
    from servekit.frontend.http.writer import Sender

__all__ = ["StreamWriter"]


class StreamWriter:
    """Writes pieces of a body, and keeps those that the client does not take yet."""

    __slots__ = ("_held", "_is_chunked", "_sender")

    def __init__(self, sender: Sender, *, is_chunked: bool) -> None:
        """Write by *sender*; HTTP/1.0 has no chunks."""
        self._sender, self._is_chunked = sender, is_chunked
        self._held = bytearray()
        sender.on_flushed = self._on_flushed

    def write(self, piece: bytes) -> bool:
        """Write *piece*; return whether the client keeps up."""
        self._put(b"%x\r\n%b\r\n" % (len(piece), piece) if self._is_chunked else piece)
        return len(self._held) <= MAX_HELD_BYTES

    def end(self) -> None:
        """Hand what is held to the sender: nothing more will come."""
        if self._is_chunked:
            self._put(b"0\r\n\r\n")
        self._on_flushed()

    @property
    def is_waiting(self) -> bool:
        """The client has not taken all of it yet."""
        return bool(self._sender.rest)

    def _put(self, data: bytes) -> None:
        if self._sender.rest:
            self._held += data
            self._sender.hold(len(data))
        else:
            self._sender.send(data)

    def _on_flushed(self) -> None:
        held, self._held = self._held, bytearray()
        if held:
            self._sender.send(bytes(held))
