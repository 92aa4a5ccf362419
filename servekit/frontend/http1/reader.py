# SPDX-License-Identifier: Apache-2.0
"""The bytes of an HTTP/1.1 connection as events.

    reader.feed(data)
    event = reader.requests.popleft() if reader.requests else reader.next_event()

No socket, no clock, no connection: its driver reads, waits and responds (``connection.py``).

Most clients repeat their header sections byte for byte. A request that is one piece, with a header
section that is known, needs no parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from servekit.extension.http import HttpRequest
from servekit.frontend.http.request_builder import BODY, IDLE
from servekit.frontend.http1.parser import RequestParser

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.frontend.exchange.protocols import Guard
    from servekit.frontend.memory.pressure import Pressure
    from servekit.settings import Settings

__all__ = ["KnownHeads", "Preface", "RequestReader"]

MAX_KNOWN = 256
MAX_BYTES = 1024
END = b"\r\n\r\n"
#: fields of heads that are not kept: they need the parser, or are secrets
UNFIT = frozenset((b"authorization", b"cookie", b"expect", b"transfer-encoding", b"upgrade"))


class KnownHead(NamedTuple):
    """A parsed header section."""

    method: bytes
    target: bytes
    headers: dict[bytes, bytes]
    body_bytes: int


class KnownHeads:
    """Shared by the connections of one listener."""

    __slots__ = ("_heads", "missed")

    def __init__(self) -> None:
        """Begin without any."""
        self._heads: dict[bytes, KnownHead] = {}
        self.missed = b""  #: header section that was not found last

    def find(self, data: bytes) -> HttpRequest | None:
        """Return the request if *data* is exactly one, with a header section that is known."""
        end = data.find(END) + len(END)
        head = data[:end]
        known = self._heads.get(head)
        if known is None or len(data) != end + known.body_bytes:
            self.missed = head
            return None
        headers = known.headers.copy()
        return HttpRequest(known.method, known.target, headers, data[end:], True, "1.1")

    def add(self, request: HttpRequest, size: int) -> None:
        """Remember the head that was missed last, if it and a body make up *request*.

        :param size: bytes of data that *request* came of.
        """
        head, headers, body = self.missed, request.headers, request.body
        if (
            UNFIT.isdisjoint(headers)
            and request.version == "1.1"
            and request.keeps_alive
            and isinstance(body, bytes)
            and len(head) + len(body) == size
            and len(head) <= MAX_BYTES
        ):
            if len(self._heads) >= MAX_KNOWN:
                self._heads.clear()
            known = KnownHead(request.method, request.target, headers.copy(), len(body))
            self._heads[head] = known


class Preface(NamedTuple):
    """The client has sent the preface of HTTP/2."""

    data: bytes  #: the bytes after it


class RequestReader:
    """Reads the requests of one connection."""

    __slots__ = ("_known", "_last_head", "_parser", "builder", "is_over", "requests")

    def __init__(
        self, settings: Settings, guard: Guard | None, pressure: Pressure, known: KnownHeads
    ) -> None:
        """Apply the limits of *settings*.

        :param guard: judges each header section when it is whole.
        :param pressure: counts large bodies that are not in shared memory.
        """
        self._parser = RequestParser(settings, guard, pressure)
        self._known = known if guard is None else None
        self._last_head = b""  #: the last one that was not known
        self.builder = self._parser.builder  #: holds the request that is incomplete
        self.requests = self._parser.requests  #: whole or refused, in order: the next events
        self.is_over = False  #: nothing that follows is read as a request

    def feed(self, data: bytes) -> None:
        """Read *data*."""
        parser, requests = self._parser, self.requests
        known = None if self.builder.stage or parser.lines.partial else self._known
        if known is not None:
            request = known.find(data)
            if request is not None:
                requests.append(request)
                return
        before, error = len(requests), parser.feed(data)
        if error is not None:
            self.refuse(error)
        elif parser.after_preface is not None:
            self.is_over = True
        elif known is not None:
            if known.missed == self._last_head and len(requests) == before + 1:
                known.add(requests[-1], len(data))
            self._last_head = known.missed

    def next_event(self) -> HttpRequest | Preface | int:
        """Return what follows ``requests``: ``Preface``, or the stage of an incomplete request.

        An incomplete request that is refused is returned itself. If ``is_over`` is set and no
        event is left, nothing more will come.
        """
        if self._parser.after_preface is not None:
            preface, self._parser.after_preface = Preface(self._parser.after_preface), None
            return preface
        if self.is_over:
            return IDLE
        builder = self.builder
        if builder.stage == BODY and builder.refusal is not None:  # nobody wants its body
            self.refuse(builder.refusal)
            return self.requests.popleft()
        return builder.stage

    def refuse(self, error: ServekitError) -> None:
        """Refuse the request that is incomplete, and read no other."""
        self.is_over = True
        self.requests.append(self.builder.refuse(error))

    def end(self, request: HttpRequest) -> HttpRequest:
        """Return *request*, taken from the builder without its body, as the last one."""
        self.is_over, request.keeps_alive = True, False
        return request

    def end_body(self) -> None:
        """Complete a request whose body was read elsewhere."""
        self._parser.end_body()

    def close(self) -> None:
        """Free everything."""
        self._parser.close()
