# SPDX-License-Identifier: Apache-2.0
"""llhttp's callbacks: the request under way, its limits, and the requests that are whole."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from servekit.errors import (
    BodyTooLarge,
    HeadersTooLarge,
    QueueFull,
    RequestError,
    TargetTooLong,
    VersionNotSupported,
)
from servekit.extension.http import HttpRequest
from servekit.frontend.http import fields, targets
from servekit.frontend.http.upload import Upload

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.frontend.exchange.protocols import Guard, Route
    from servekit.frontend.memory.pressure import Pressure
    from servekit.settings import Settings

__all__ = [
    "BEGUN",
    "BODY",
    "HEADER",
    "IDLE",
    "MAX_HEADERS",
    "ChunkedBody",
    "Collector",
]

OWS = b" \t"  #: around a value, not of it (RFC 9112 5.1)
MAX_HEADERS = 100
SPACE = 0x20
SHARE = 16  #: part of an arena that a body of unknown size gets to begin with
#: how far the request under way is; the last two are set by who keeps its clock
IDLE, BEGUN, HEADER, BODY = range(4)


class ChunkedBody(Exception):
    """llhttp has read a header section whose body is not for it."""


class Collector:
    """Is told by llhttp what it reads; a ``RequestError`` raised here ends the reading."""

    __slots__ = (
        "_body",
        "_guard",
        "_held",
        "_llhttp",
        "_pressure",
        "_settings",
        "_target",
        "_version",
        "declared_bytes",
        "headers",
        "is_in_body",
        "received",
        "refusal",
        "repeated",
        "requests",
        "skipped",
        "stage",
        "upload",
        "wants_continue",
    )

    def __init__(
        self, settings: Settings, guard: Guard | None, pressure: Pressure | None = None
    ) -> None:
        """Take the limits of *settings*; *guard* judges each whole header section once.

        :param pressure: is told of bodies that are large and lie in no arena.
        """
        self._settings = settings
        self._guard = guard
        self._pressure = pressure
        self._held = 0  #: bytes that it was told of
        self._llhttp: Any = None
        self.requests: deque[HttpRequest] = deque()  #: whole, in order; the caller takes them
        self._reset()

    @property
    def target(self) -> bytes:
        """Of the request under way, as far as it has come."""
        return self._target

    def _reset(self) -> None:
        """Be ready for the next request's first byte."""
        self.headers: dict[bytes, bytes] = {}  #: of the request under way, names in lower case
        self._target = b""
        self._body: bytes | bytearray = b""
        self.upload: Upload | None = None  #: takes the body in place of us
        self.repeated = 0  #: header fields of a name that had come before
        self.received = 0  #: bytes fed since the last whole request
        self.stage = IDLE
        self.is_in_body = False  #: the header section is whole, the body is not
        self.declared_bytes = -1  #: ``Content-Length`` of that body
        self.wants_continue = False
        self.refusal: ServekitError | None = None  #: the guard's, of that request

    def on_message_begin(self) -> None:
        """Note the first byte of a request line; empty lines before it are none."""
        self.stage = BEGUN

    def on_url(self, data: bytes) -> None:
        """Take a piece of the request target."""
        self._target = target = self._target + data if self._target else data
        if len(target) > self._settings.max_target:
            raise TargetTooLong(f"request target: limit {self._settings.max_target} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header field."""
        if self.is_in_body:
            return  # a trailer: nothing that comes after the body may change what it means
        name = name.lower()
        if value and value[-1] <= SPACE:
            value = value.rstrip(OWS)  # llhttp takes off what stands before it alone
        headers = self.headers
        if name in headers:
            self.repeated += 1
            if self.repeated > MAX_HEADERS:  # joining them takes ever longer
                raise HeadersTooLarge(f"repeated header fields: limit {MAX_HEADERS}")
            value = fields.joined(name, headers[name], value)
        elif len(headers) >= MAX_HEADERS:
            raise HeadersTooLarge(f"header fields: limit {MAX_HEADERS}")
        headers[name] = value

    def on_headers_complete(self) -> None:
        """Refuse now what can be refused before the body."""
        headers = self.headers
        self._version = version = self._llhttp.get_http_version()
        host = headers.get(b"host")
        if version != "1.1" or host not in fields.known_hosts:
            self._check_version_and_host(version, host)
            version = self._version
        if self._target not in targets.known:
            self._check_target()
        if b"transfer-encoding" in headers:
            fields.check_transfer_encoding(headers[b"transfer-encoding"], headers, version)
        if b"content-encoding" in headers:
            given, taken = headers[b"content-encoding"], self._settings.compression
            headers[b"content-encoding"] = fields.content_coding(given, taken)
        if self.received > self._settings.max_header:
            self._check_header_size()
        length = headers.get(b"content-length")
        if length is not None:
            self.declared_bytes = int(length)
            self._check_body_size(self.declared_bytes)
        self.is_in_body = True
        if b"expect" in headers and version != "1.0":
            self.wants_continue = fields.wants_continue(headers[b"expect"])
        if self._guard is not None:
            self._ask_guard(self._guard, headers)
        if b"transfer-encoding" in headers:
            raise ChunkedBody

    def _ask_guard(self, guard: Guard, headers: dict[bytes, bytes]) -> None:
        method = self._llhttp.get_method()
        self.refusal = guard(method, self._target, headers, self._has_body())
        self.skipped = 0  #: bytes of a body that is refused
        if self.refusal is not None and method == b"HEAD":
            raise self.refusal  # and close: what answers a HEAD with a body must be the last

    def _has_body(self) -> bool:
        """Whether a body follows the header section."""
        headers = self.headers
        return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body, chunked framing taken off."""
        if self.refusal is not None:
            self.skipped += len(data)
            return  # nobody will read it
        if self.upload is not None:
            self._check_body_size(self.upload.filled + len(data))
            self.upload.take(data)
            return
        if not self._body:
            self._body = data
        else:
            if type(self._body) is not bytearray:
                self._body = bytearray(self._body)
            self._body += data
            self._hold()
        if self.declared_bytes < 0:  # else it has been checked, and llhttp sees that it is kept
            self._check_body_size(len(self._body))

    def on_message_complete(self) -> None:
        """Keep the whole request."""
        llhttp, body, upload = self._llhttp, self._body, self.upload
        request = HttpRequest(
            llhttp.get_method(),
            self._target,
            self.headers,
            body if type(body) is bytes else bytes(body),
            llhttp.should_keep_alive(),
            self._version,
            self.refusal,
        )
        if upload is not None:
            request.body, request.route = upload.lay(), upload.route
        self.requests.append(request)
        self._let_go()
        self._reset()

    def _hold(self) -> None:
        """Count what lies here of a large body, if there is room for it."""
        more, pressure = len(self._body) - self._held, self._pressure
        if pressure is None or len(self._body) < self._settings.large_body:
            return
        if not pressure.has_room(more):
            raise QueueFull
        pressure.bodies += more
        self._held += more

    def _let_go(self) -> None:
        if self._held and self._pressure is not None:
            self._pressure.bodies -= self._held
            self._held = 0

    @property
    def body_bytes(self) -> int:
        """How much has come of the body that is under way."""
        return self.upload.filled if self.upload is not None else len(self._body)

    def start_upload(self, route: Route) -> Upload:
        """Have the rest of a body of unknown size laid into the shared memory of a model."""
        limit = self._settings.max_body
        size = min(limit, max(route.bodies.arena.size // SHARE, len(self._body)))
        self._let_go()
        self.upload = Upload(route, None, self._body, size, limit)
        self._body = b""
        return self.upload

    def abandon(self) -> None:
        """Nobody will wait for the body that is under way."""
        self._let_go()
        upload, self.upload = self.upload, None
        if upload is not None:
            upload.abandon()

    def _check_version_and_host(self, version: str, host: bytes | None) -> None:
        if version not in ("1.1", "1.0"):
            if version == "0.9":  # so llhttp calls a request line that names none
                raise RequestError("request line: no version of HTTP")
            if version[:2] != "1.":
                raise VersionNotSupported("HTTP/1.1 and HTTP/1.0 are spoken here")
            self._version = "1.1"  # the highest minor version that is known here (RFC 9110 2.5)
        if host is not None or version != "1.0":
            fields.check_host(host)

    def _check_target(self) -> None:
        method = self._llhttp.get_method()
        if method != b"CONNECT":  # refused once it is whole
            self._target, authority = targets.in_origin_form(method, self._target)
            if authority:  # it outranks the field (RFC 9112 3.2.2)
                self.headers[b"host"] = authority

    def _check_header_size(self) -> None:
        size = sum(len(name) + len(value) + 4 for name, value in self.headers.items())
        limit = self._settings.max_header
        if size > limit:
            raise HeadersTooLarge(f"header section: {size} bytes, limit {limit}")

    def _check_body_size(self, size: int) -> None:
        limit = self._settings.max_body
        if size > limit:
            raise BodyTooLarge(f"body: {size} bytes or more, limit {limit}")
