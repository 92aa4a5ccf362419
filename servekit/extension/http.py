# SPDX-License-Identifier: Apache-2.0
"""HTTP as values: a request that has arrived, and its response.

Neither knows which version of HTTP carries it: bytes are made and parsed by the transports alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from servekit.ipc.batches import Slab
from servekit.ipc.stream_formats import STREAM_FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.errors import ServekitError
    from servekit.service.identity import Identity

__all__ = ["NO_LENGTH", "WITHOUT_CONTENT", "HttpRequest", "HttpResponse"]

#: statuses whose responses have no content (RFC 9110 15.3.5, 15.4.5), so no Content-Length
WITHOUT_CONTENT = (204, 304)
NO_LENGTH = -1


class HttpRequest(Struct, eq=False):
    """One request, received whole."""

    method: bytes
    target: bytes  #: in origin form, or ``*``
    headers: dict[bytes, bytes]  #: names in lower case
    body: bytes | Slab  #: large ones of predictions lie in shared memory; ``content`` reads both
    keeps_alive: bool
    version: str  #: ``2``, ``1.1`` or ``1.0``; "" if the request line never arrived whole
    refusal: ServekitError | None = None  #: the response is this error, whatever the route
    route: Any = None  #: the ``PredictionRoute`` that answers, if it has been looked up
    identity: Identity | None = None  #: of the client, if ``authorize`` of a plugin has named it
    began: float = 0.0  #: ``monotonic``: its first byte; 0 if it arrived in one piece
    request_id: str = ""  #: from ``X-Request-Id``, or made here, before middleware sees it

    @property
    def accepts_stream(self) -> bool:
        """Whether ``Accept`` names a media type of streams."""
        accept = self.headers.get(b"accept", b"").lower()
        return any(media_type.encode() in accept for media_type in STREAM_FORMATS)

    @property
    def content(self) -> bytes | memoryview:
        """The body, read-only; valid until the request is passed on."""
        if isinstance(self.body, Slab):
            view: memoryview = self.route.bodies.content(self.body)
            return view
        return self.body

    def discard(self) -> None:
        """Give the memory of the body back: nobody will read it."""
        body, self.body = self.body, b""
        if isinstance(body, Slab):
            self.route.bodies.free(body)


class HttpResponse(Struct, eq=False):
    """The response to one request.

    The transport adds ``Date``, ``Content-Length`` and what its version of HTTP needs.
    """

    status: int
    body: bytes | memoryview = b""
    media_type: str = ""  #: ``Content-Type`` of the body; "" for none
    request_id: str = ""  #: ``X-Request-Id``
    timing: bytes = b""  #: ``Server-Timing``; b"" for none
    fields: Sequence[tuple[str, str]] = ()  #: further header fields, names as they are sent
    release: Callable[[], None] | None = None  #: called once nobody looks at ``body`` any more
    #: bytes that a GET would have had; ``None``: those of ``body``; ``NO_LENGTH``: it is streamed
    length: int | None = None
    error: ServekitError | None = None  #: the response reports it
    model_version: bytes = b""  #: ``X-Model-Version``; b"" for none
    #: filters add functions here, which get each piece of the body of a response that is streamed,
    #: before the client does; they must not block
    watchers: Sequence[Callable[[bytes], object]] = ()

    @property
    def is_streamed(self) -> bool:
        """Whether this is the head of a stream, whose body is written later."""
        return self.length == NO_LENGTH

    @property
    def content_length(self) -> int:
        """Bytes that ``Content-Length`` states; ``NO_LENGTH`` if there is no such field."""
        if self.status in WITHOUT_CONTENT:
            return NO_LENGTH
        return len(self.body) if self.length is None else self.length

    def discard(self) -> None:
        """Give the memory of the body back: nobody will read it."""
        release, self.release = self.release, None
        if release is not None:
            release()
