# SPDX-License-Identifier: Apache-2.0
"""The bytes of an HTTP/1.1 connection as events.

    reader.feed(data)
    event = reader.next_event()

No socket, no clock, no connection: its driver reads, waits and responds (``connection.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from servekit.frontend.http.request_builder import BODY, IDLE
from servekit.frontend.http1.parser import RequestParser

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.extension.http import HttpRequest
    from servekit.frontend.exchange.protocols import Guard
    from servekit.frontend.http1.known_heads import KnownHeads
    from servekit.frontend.memory.pressure import Pressure
    from servekit.settings import Settings

__all__ = ["Preface", "RequestReader"]


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
        self.requests = self._parser.requests  #: events that are next, in order
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
        """Return the next request, or ``Preface``; else the stage of the one that is incomplete.

        A request that has a ``refusal`` may be incomplete. If ``is_over`` is set and no event is
        left, nothing more will come.
        """
        if self.requests:
            return self.requests.popleft()
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
