# SPDX-License-Identifier: Apache-2.0
"""Makes requests of their parts: the rules and limits that both versions of HTTP share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from servekit.errors import BodyTooLarge, HeadersTooLarge, TargetTooLong
from servekit.extension.http import HttpRequest
from servekit.frontend.http import fields, targets
from servekit.frontend.http.closed import do_nothing
from servekit.frontend.http.request_body import CollectedBody, SkippedBody
from servekit.frontend.http.upload import Upload
from servekit.service.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.frontend.exchange.protocols import Guard, PredictionRoute
    from servekit.frontend.http.request_body import BodySink
    from servekit.frontend.memory.arriving import ArrivingRequest
    from servekit.frontend.memory.pressure import Pressure
    from servekit.settings import Settings

__all__ = ["BODY", "HEAD", "IDLE", "MAX_HEADERS", "RequestBuilder", "StartLine"]

OWS = b" \t"  #: allowed around a value, and not part of it (RFC 9112 5.1)
SPACE = 0x20
MAX_HEADERS = 100
#: how much of the next request has arrived: nothing, part of its head, its head
IDLE, HEAD, BODY = range(3)


class StartLine(Protocol):
    """The first line of a request; llhttp knows it in HTTP/1.1."""

    def get_method(self) -> bytes:
        """Return the method."""

    def get_http_version(self) -> str:
        """Return ``1.1``, or another version."""

    def should_keep_alive(self) -> bool:
        """Return whether another request may follow on the same connection."""


class RequestBuilder:
    """Builds one request after another; a ``ServekitError`` that it raises is the response."""

    __slots__ = (
        *("_first", "_repeated", "arriving", "pressure", "shed"),
        *("guard", "headers", "identity", "line", "received", "refusal", "settings", "sink"),
        *("stage", "target", "version"),
    )

    def __init__(self, settings: Settings, guard: Guard | None, pressure: Pressure) -> None:
        """Apply the limits of *settings*.

        :param guard: judges each header section when it is whole.
        :param pressure: counts large bodies that are not in shared memory.
        """
        self.settings = settings
        self.guard = guard
        self.pressure = pressure
        self.line: StartLine | None = None  #: set before the head ends
        self.shed: Callable[[], None] = do_nothing  #: called when others need the memory more
        self.arriving: ArrivingRequest | None = None  #: counts an incomplete request
        self._reset()

    def _reset(self) -> None:
        """Begin with the next request."""
        self.stage = IDLE
        self.target = b""  #: as much of it as has arrived
        self.version = ""
        self.headers: dict[bytes, bytes] = {}  #: names in lower case
        self._repeated = 0  #: header fields whose name had come before
        self._first: bytes = b""  #: first piece of the body
        self.sink: BodySink | None = None  #: takes further pieces
        self.received = 0  #: bytes fed since the last whole request, where the transport counts
        self.refusal: ServekitError | None = None  #: the guard's
        self.identity: Identity | None = None  #: of the client, from the guard

    @property
    def method(self) -> bytes:
        """The method; b"" if it has not arrived."""
        return self.line.get_method() if self.line is not None else b""

    def add_target(self, data: bytes) -> None:
        """Add a piece of the request target."""
        self.target = target = self.target + data if self.target else data
        if len(target) > self.settings.max_target:
            raise TargetTooLong(f"request target: limit {self.settings.max_target} bytes")

    def add_field(self, name: bytes, value: bytes) -> None:
        """Add one header field."""
        name = name.lower()
        if value and value[-1] <= SPACE:
            value = value.rstrip(OWS)  # llhttp strips leading whitespace only
        headers = self.headers
        if name in headers:
            self._repeated += 1
            if self._repeated > MAX_HEADERS:  # joining them takes ever longer
                raise HeadersTooLarge(f"repeated header fields: limit {MAX_HEADERS}")
            value = fields.joined(name, headers[name], value)
        elif len(headers) >= MAX_HEADERS:
            raise HeadersTooLarge(f"header fields: limit {MAX_HEADERS}")
        headers[name] = value

    def end_head(self, *, has_body: bool | None = None) -> None:
        """Check the whole head, so that a bad request is refused before its body arrives.

        :param has_body: ``None`` if the header fields say so.
        """
        assert self.line is not None
        headers = self.headers
        self.version = version = self.line.get_http_version()
        host = headers.get(b"host")
        if version != "1.1" or host not in fields.known_hosts:
            self.version = fields.check_version_and_host(version, host)
        if self.target not in targets.known:
            self._check_target()
        is_chunked = b"transfer-encoding" in headers
        if is_chunked:
            fields.check_transfer_encoding(headers[b"transfer-encoding"], headers, self.version)
        if b"content-encoding" in headers:
            given, taken = headers[b"content-encoding"], self.settings.request_codings
            headers[b"content-encoding"] = fields.content_coding(given, taken)
        if self.received > self.settings.max_header:
            fields.check_size(headers, self.settings.max_header)
        length = headers.get(b"content-length")
        if length is not None and int(length) > self.settings.max_body:
            raise BodyTooLarge(f"body: {int(length)} bytes, limit {self.settings.max_body}")
        self.stage = BODY
        if b"expect" in headers and self.version != "1.0":
            fields.wants_continue(headers[b"expect"])
        if self.guard is not None:
            self._ask_guard(self.guard, has_body)
        if is_chunked:
            self.begin_chunks()

    def begin_chunks(self) -> None:
        """Handle that a chunked body follows. HTTP/1.1 alone has them."""

    def _ask_guard(self, guard: Guard, has_body: bool | None) -> None:
        method, headers = self.method, self.headers
        if has_body is None:
            is_chunked = b"transfer-encoding" in headers
            has_body = is_chunked or headers.get(b"content-length", b"0") != b"0"
        verdict = guard(method, self.target, headers, has_body)
        if isinstance(verdict, Identity):
            self.identity = verdict
        elif verdict is not None:
            self.refusal = verdict
            self.sink = SkippedBody()
            if method == b"HEAD":
                raise self.refusal  # and close: a response that some clients take for a body

    def _check_target(self) -> None:
        method = self.method
        if method != b"CONNECT":  # refused once it is whole
            self.target, authority = targets.in_origin_form(method, self.target)
            if authority:  # it outranks the field (RFC 9112 3.2.2)
                self.headers[b"host"] = authority

    @property
    def declared_bytes(self) -> int:
        """``Content-Length`` of the request; -1 without one."""
        return int(self.headers.get(b"content-length", -1))

    @property
    def body_bytes(self) -> int:
        """How much of the body has arrived."""
        return self.sink.filled if self.sink is not None else len(self._first)

    @property
    def waits_for_room(self) -> bool:
        """Whether the body is large and waits for shared memory."""
        return self.sink is not None and self.sink.is_waiting

    @property
    def wants_continue(self) -> bool:
        """Whether the client sends the body only once it is asked to (RFC 9110 10.1.1)."""
        return self.version != "1.0" and bool(self.headers.get(b"expect"))

    def add_body(self, data: bytes) -> None:
        """Add a piece of the body."""
        sink = self.sink
        size, limit = self.body_bytes + len(data), self.settings.max_body
        if size > limit and self.refusal is None:
            raise BodyTooLarge(f"body: {size} bytes or more, limit {limit}")
        if sink is None:
            if not self._first:
                self._first = data
                return
            sink = CollectedBody(self._first, self.settings.large_body, self.pressure)
            self._first, self.sink = b"", sink
        sink.take(data)

    def let_go(self) -> None:
        """Count it as arriving no longer: it is whole, over, or counted elsewhere."""
        if self.arriving is not None:
            self.arriving.end()
            self.arriving = None

    def start_upload(self, route: PredictionRoute, size: int, limit: int) -> Upload:
        """Continue the body in the shared memory of *route*.

        :param size: bytes to begin with; the body may grow to *limit*.
        """
        begun = self._first if self.sink is None else bytes(self.sink.finish())  # type: ignore[arg-type]
        self._first = b""
        self.sink = upload = Upload(route, begun, size, limit)
        if not upload.is_waiting:
            self.let_go()
        return upload

    def finish(self) -> HttpRequest:
        """Return the whole request, and begin with the next one."""
        line, sink = self.line, self.sink
        assert line is not None
        request = HttpRequest(
            line.get_method(),
            self.target,
            self.headers,
            self._first,
            line.should_keep_alive(),
            self.version,
            self.refusal,
        )
        if self.identity is not None:
            request.identity = self.identity
        if sink is not None:
            request.body, request.route = sink.finish(), sink.route
        if self.arriving is not None:
            self.let_go()
        self._reset()
        return request

    def refuse(self, error: ServekitError) -> HttpRequest:
        """Return a request that has *error* for a response, as much of it as has arrived."""
        self.abandon()
        refusal = error.with_traceback(None)  # its frames refer to the request, and to us
        return HttpRequest(self.method, self.target, self.headers, b"", False, "", refusal)

    def abandon(self) -> None:
        """Free the memory of the body."""
        self.let_go()
        sink, self.sink, self._first = self.sink, None, b""
        if sink is not None:
            sink.abandon()
