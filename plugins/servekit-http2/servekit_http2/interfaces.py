# SPDX-License-Identifier: Apache-2.0
"""A stream and the owner of the streams, as each sees the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from servekit.frontend.transport import Timed

if TYPE_CHECKING:
    from h2.errors import ErrorCodes

    from servekit.frontend.transport import Host
    from servekit_http2.hpack_encoder import Fields
    from servekit_http2.send_queue import SendQueue

__all__ = ["ScheduledStream", "StreamOwner"]


class ScheduledStream(Timed, Protocol):
    """One stream of a connection."""

    stream_id: int
    outgoing: SendQueue
    is_due: bool  #: it waits for its turn to write

    def finish(self) -> None:
        """Handle that the whole response is out."""


class StreamOwner(Protocol):
    """Owns the streams of one connection."""

    host: Host

    @property
    def peer(self) -> Any:
        """The client's address."""

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""

    @property
    def subject(self) -> str:
        """Subject of the client's certificate; "" without one."""

    def send_fields(self, stream_id: int, fields: Fields) -> None:
        """Send the fields of an interim response."""

    def acknowledge(self, stream_id: int, counted: int) -> None:
        """Let the client send *counted* more bytes on a stream."""

    def widen(self, stream_id: int, count: int) -> None:
        """Let the client have *count* more bytes in flight from now on."""

    def reset_stream(self, stream_id: int, code: ErrorCodes) -> None:
        """End a stream."""

    def wake(self, *streams: ScheduledStream) -> None:
        """Write *streams* in their turn."""

    def forget(self, stream: ScheduledStream) -> None:
        """Forget *stream*: it is closed."""
