# SPDX-License-Identifier: Apache-2.0
"""An exchange that continues after its client has been answered otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servekit.errors import NotAcceptable
from servekit.extension.base_exchange import BaseExchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.extension.exchange import BodyWriter, Exchange
    from servekit.extension.http import HttpResponse

__all__ = ["BackgroundExchange", "NoWriter"]


class BackgroundExchange(BaseExchange):
    """Hands its response to the client of another exchange, or to a function after ``leave``.

    Middleware passes it to ``proceed`` in place of the exchange that it was given.
    """

    def __init__(self, client: Exchange) -> None:
        """Stand in for *client*: when that is closed, the prediction is cancelled."""
        super().__init__(client.peer)
        self.is_encrypted, self.subject = client.is_encrypted, client.subject
        self.request, self.trace = client.request, client.trace
        self.is_cancelled = False  #: the client sends no more, and perhaps still reads
        self._client: Exchange | None = client
        self._keep: Callable[[HttpResponse], None] | None = None
        client.prediction = self

    def leave(self, keep: Callable[[HttpResponse], None]) -> None:
        """Call *keep* with the response. The caller answers the client."""
        if self._client is not None:
            self._client.prediction = None
        self._client, self._keep = None, keep
        self.trace = None  # the trace of the client ends now

    @property
    def is_sent(self) -> bool:
        """Whether a worker has the prediction."""
        return self.prediction is not None and self.prediction.is_sent

    def cancel(self) -> None:
        """Tell the worker; a client that is still there gets what it answers."""
        if self.is_closed:
            return
        self.is_cancelled = True
        if self._client is None or self._client.is_closed:
            self.is_closed = True
            self.observe_end(None, 0)
        if self.prediction is not None:
            self.prediction.cancel()

    def drop(self) -> None:
        """Cancel the prediction: nobody wants its response any more."""
        self._client = None
        self.cancel()

    def send(self, response: HttpResponse) -> None:
        """Hand *response* to the client, or to the function given to ``leave``."""
        self.is_closed = True
        self.observe_end(response.status, len(response.body))
        if self._client is not None:
            self._client.model_version = self.model_version
            self._client.respond(response)
        elif self._keep is not None:
            self._keep(response)

    def begin_stream(self, _stream: Any, response: HttpResponse) -> BodyWriter:
        """Respond with an error, and drop the stream: a response that is kept has to be whole."""
        prediction = self.prediction
        self.fail(NotAcceptable("a stream cannot be fetched later"), response.request_id)
        if prediction is not None:
            prediction.cancel()
        return NoWriter()

    def end_stream(self, _size: int, _status: int = 200) -> None:
        """Do nothing: the stream was dropped."""

    def reset(self) -> None:
        """Do nothing: the stream was dropped."""


class NoWriter:
    """Takes the body of a stream that was dropped."""

    is_waiting = False

    def write(self, _piece: bytes) -> bool:
        """Ignore the piece."""
        return True

    def end(self) -> None:
        """Do nothing."""
