# SPDX-License-Identifier: Apache-2.0
"""llhttp's callbacks: the parts of requests as it reads them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from servekit.frontend.http.request_builder import HEAD, RequestBuilder

if TYPE_CHECKING:
    from servekit.extension.http import HttpRequest
    from servekit.frontend.exchange.protocols import Guard
    from servekit.frontend.memory.pressure import Pressure
    from servekit.settings import Settings

__all__ = ["ChunkedBody", "LlhttpBuilder"]


class ChunkedBody(Exception):
    """llhttp has read a header section whose body it must not see."""


class LlhttpBuilder(RequestBuilder):
    """A builder whose parts come from llhttp's callbacks."""

    __slots__ = ("requests",)

    def __init__(self, settings: Settings, guard: Guard | None, pressure: Pressure) -> None:
        super().__init__(settings, guard, pressure)
        self.requests: deque[HttpRequest] = deque()  #: whole, in order

    on_url = RequestBuilder.add_target
    on_header = RequestBuilder.add_field
    on_headers_complete = RequestBuilder.end_head

    def on_message_begin(self) -> None:
        """Note the first byte of a request line; an empty line before it does not count."""
        self.stage = HEAD

    def begin_chunks(self) -> None:
        """Stop llhttp: it must not see a chunked body."""
        raise ChunkedBody

    def on_body(self, data: bytes) -> None:
        """Add a piece of a body whose size llhttp knows."""
        if self._first or self.sink is not None:
            self.add_body(data)
        else:
            self._first = data

    def on_message_complete(self) -> None:
        """Keep the whole request."""
        self.requests.append(self.finish())
