# SPDX-License-Identifier: Apache-2.0
"""The request of one stream as it arrives: its body, its timeout, its part of flow control."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from servekit.frontend.transport import (
    BodyClock,
    count_arrived,
    end_unread,
    lateness_of,
    start_upload,
)
from servekit_http2.hpack_encoder import CONTINUE
from servekit_http2.request_builder import StreamRequestBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from servekit.errors import ServekitError
    from servekit.extension import HttpRequest
    from servekit.frontend.transport import Guard
    from servekit_http2.interfaces import StreamOwner

__all__ = ["IncomingRequest"]

WINDOW_BYTES = 65_535  #: window of a stream, until its body is known to have room
WIDE_BYTES = 1 << 20  #: window once the body has room; a wider one gains little


class IncomingRequest:
    """Belongs to one exchange."""

    __slots__ = (
        "_builder",
        "_clock",
        "_host",
        "_on_room",
        "_shed",
        "_stream_id",
        "_streams",
        "_withheld",
        "is_awaited",
        "received",
    )

    def __init__(
        self,
        streams: StreamOwner,
        stream_id: int,
        guard: Guard | None,
        on_room: Callable[[], None],
        shed: Callable[[], None],
    ) -> None:
        """Expect a request.

        :param guard: judges its header section.
        :param on_room: called when there is room for its body, and its timeout has changed.
        :param shed: called when others need the memory of its body more.
        """
        self._streams, self._stream_id = streams, stream_id
        self._host = host = streams.host
        self._on_room, self._shed = on_room, shed
        self._builder = StreamRequestBuilder(host.settings, guard, host.pressure)
        self._builder.shed = shed
        self._clock: BodyClock | None = None  #: times the body
        self._withheld = 0  #: bytes that the client may not send again before there is room
        self.received = 0  #: bytes of the body, with those after a refusal
        self.is_awaited = True  #: it has been neither handed over nor refused

    def open(self, fields: Iterable[tuple[bytes, bytes]], *, is_end: bool) -> ServekitError | None:
        """Take the header section; return why it is refused, if it is.

        :raises MalformedRequest: it is not a valid request.
        :raises RequestError: a limit or a rule of HTTP refuses it.
        """
        builder = self._builder
        builder.take_fields(fields, is_end=is_end)
        return builder.refusal or (None if is_end else count_arrived(builder))

    # ------------------------------------------------------------ the body

    def await_body(self) -> HttpRequest | None:
        """Start the timeout of the body, and ask for it if the client waits to send it.

        :return: the request, if its body is not wanted.
        """
        self._clock = BodyClock(self._host.settings, monotonic())
        if self._builder.wants_continue:
            request = end_unread(self._builder, self._host)
            if request is not None:
                self.is_awaited = False
                return request
            self._streams.send_fields(self._stream_id, CONTINUE)
        self._place()
        return None

    def _place(self) -> None:
        """Continue a large body in shared memory."""
        upload = start_upload(self._builder, self._host)
        if upload is not None:
            upload.on_room, upload.shed = self._continue, self._shed
            if not upload.is_waiting:
                self._widen()

    def _widen(self) -> None:
        """Let the client send more at once: there is room."""
        wanted = min(WIDE_BYTES, self._builder.declared_bytes)
        if wanted > WINDOW_BYTES:
            self._streams.widen(self._stream_id, wanted - WINDOW_BYTES)

    def _continue(self) -> None:
        self._clock = BodyClock(self._host.settings, monotonic())  # the wait was not the client's
        self._builder.let_go()  # shared memory counts it from now on
        withheld, self._withheld = self._withheld, 0
        self._streams.acknowledge(self._stream_id, withheld)
        self._widen()
        self._on_room()

    def expires(self, more: int = 0) -> float:
        """Return the moment at which the client is too slow.

        :param more: bytes of the body that have arrived in a frame that is not whole.
        """
        assert self._clock is not None
        return self._clock.expires(monotonic(), self.received + more)

    @property
    def waits_for_room(self) -> bool:
        """Whether the body is large and waits for shared memory."""
        return self._builder.waits_for_room

    def take(self, data: bytes, counted: int, *, is_last: bool) -> bool:
        """Take a piece of the body; return whether it is still awaited.

        :param counted: bytes that flow control counts for it.
        :raises BodyTooLarge: it exceeds the limit.
        :raises QueueFull: requests that arrive in parts may take no more memory.
        """
        if self.waits_for_room:
            self._withheld += counted
        else:
            self._streams.acknowledge(self._stream_id, counted)
        self.received += len(data)
        if self.is_awaited:
            self._builder.add_body(data)
            self._place()
            if not is_last and (error := count_arrived(self._builder)) is not None:
                raise error
        return self.is_awaited

    # ------------------------------------------------------------ the end

    def end(self) -> HttpRequest:
        """Return the whole request.

        :raises MalformedRequest: its body is not as long as ``Content-Length`` says.
        """
        request = self._builder.end()
        self.is_awaited = False
        return request

    def refuse(self, error: ServekitError) -> HttpRequest:
        """Return a request that has *error* for a response."""
        self.is_awaited = False
        return self._builder.refuse(error)

    def lateness(self) -> ServekitError:
        """Return the error of a request that did not arrive in time."""
        return lateness_of(self._builder)

    def abandon(self) -> None:
        """Free the memory of the body: nobody waits for the request."""
        self.is_awaited = False
        self._builder.abandon()
