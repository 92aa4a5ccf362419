# SPDX-License-Identifier: Apache-2.0
"""The base of all exchanges: it applies what middleware has added, and shapes errors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from servekit.errors import ServekitError
from servekit.extension.exchange import InThread
from servekit.extension.http import HttpResponse
from servekit.extension.problems import problem_response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.extension.exchange import (
        BodyWriter,
        Observer,
        OutputStream,
        Prediction,
        ResponseFilter,
    )
    from servekit.extension.http import HttpRequest
    from servekit.extension.protocol import Protocol

__all__ = ["BaseExchange", "watched"]

log = logging.getLogger("servekit.frontend")


class BaseExchange:
    """Passes responses through the filters of middleware, and makes responses of errors."""

    __slots__ = (
        *("filters", "is_closed", "model_version", "observers", "peer", "prediction", "protocol"),
        *("request", "stream", "trace"),
    )

    tells_when_sent = False  #: it ends its trace when the client has the response

    def __init__(self, peer: Any) -> None:
        """Wait for a request of the client at the address *peer*."""
        self.peer = peer
        self.is_closed = False
        self.request: HttpRequest | None = None  #: the one that is being answered
        self.prediction: Prediction | None = None
        self.protocol: Protocol | None = None
        self.model_version = b""  #: the model that answers; b"" until it is known
        self.stream: OutputStream | None = None  #: the response, if it is streamed and has begun
        self.trace: Any = None  #: a ``RequestTrace``, if the request is traced
        self.filters: list[ResponseFilter] | None = None
        self.observers: list[Observer] | None = None

    def add_filter(self, change: ResponseFilter) -> None:
        """Pass the response to this request through *change* before it is sent."""
        if self.filters is None:
            self.filters = []
        self.filters.append(change)

    def add_observer(self, ended: Observer) -> None:
        """Call *ended* with the status, or ``None``, and the bytes of the body."""
        if self.observers is None:
            self.observers = []
        self.observers.append(ended)

    def respond(self, response: HttpResponse) -> None:
        """Send *response*, after the filters."""
        if self.is_closed:
            response.discard()
        elif self.filters:
            filters, self.filters = self.filters, None
            self._respond_filtered(response, filters)
        else:
            self._send(response)

    def _send(self, response: HttpResponse) -> None:
        """Send *response*; a 500 if it cannot be written, such as a header of a plugin."""
        if self.model_version:
            response.model_version = self.model_version
        try:
            self.send(response)
        except Exception:
            log.exception("request %s: its response cannot be sent", response.request_id)
            response.discard()
            self.send(self._error_response(ServekitError(), response.request_id))

    def send(self, response: HttpResponse) -> None:
        """Send *response* without filters."""
        raise NotImplementedError

    def fail(self, error: ServekitError, request_id: str) -> None:
        """Respond with the problem details of *error*; a stream ends with them."""
        if self.is_closed:
            return
        if self.stream is not None:
            self.stream.fail(error)
        else:
            self.respond(self._error_response(error, request_id))

    def _error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        if self.protocol is None:
            return problem_response(error, request_id)
        try:
            response = self.protocol.error_response(error, request_id)
        except Exception:
            log.exception("%s: error_response failed", type(self.protocol).__name__)
            return problem_response(error, request_id)
        response.request_id, response.error = request_id, error
        return response

    # ------------------------------------------------------------ filters and observers

    def _respond_filtered(self, response: HttpResponse, filters: list[ResponseFilter]) -> None:
        while filters:
            change = filters.pop()  # the middleware nearest to the route comes first
            try:
                found = change(response)
                if isinstance(found, InThread):
                    import gevent  # not above: hook modules are imported in workers, too

                    gevent.spawn(self._respond_later, change, found, response, filters)
                    return
                response = _checked(found)
            except Exception:  # noqa: BLE001 - a plugin may raise anything
                response = self._failed(change, response)
        self._send(response)

    def _respond_later(
        self,
        change: ResponseFilter,
        later: InThread,
        response: HttpResponse,
        filters: list[ResponseFilter],
    ) -> None:
        """Wait for a filter that works in a thread. Runs in a greenlet."""
        import gevent

        try:
            response = _checked(later.finish(gevent.get_hub().threadpool.apply(later.work)))
        except Exception:  # noqa: BLE001 - see above
            response = self._failed(change, response)
        if self.is_closed:
            response.discard()
        else:
            self._respond_filtered(response, filters)

    def _failed(self, change: ResponseFilter, response: HttpResponse) -> HttpResponse:
        """Return what the client gets in place of a *response* that *change* failed for."""
        _log_failure("filter", change, response.request_id)
        response.discard()
        return self._error_response(ServekitError(), response.request_id)

    def filter_stream(self, head: HttpResponse) -> HttpResponse:
        """Return the *head* of a streamed response after the filters.

        The change of a filter that fails is left out: the stream has begun.
        """
        filters, self.filters = self.filters or [], None
        while filters:
            change = filters.pop()
            try:
                found = change(head)
                head = _checked(
                    found.finish(found.work()) if isinstance(found, InThread) else found
                )
            except Exception:  # noqa: BLE001 - see above
                _log_failure("filter", change, head.request_id)
        return head

    def observe_end(self, status: int | None, size: int) -> None:
        """Tell the observers how this exchange ended."""
        observers, self.observers = self.observers or [], None
        for ended in observers:
            try:
                ended(status, size)
            except Exception:  # noqa: BLE001 - see above
                _log_failure("observer", ended, "")


def watched(head: HttpResponse, writer: BodyWriter) -> BodyWriter:
    """Return what sends the body of *head*: *writer*, with the watchers of *head* before it."""
    return WatchedWriter(writer, head.watchers) if head.watchers else writer


class WatchedWriter:
    """Shows each piece of a streamed body to watchers, and sends it."""

    __slots__ = ("_watchers", "_writer")

    def __init__(self, writer: BodyWriter, watchers: Sequence[Callable[[bytes], object]]) -> None:
        self._writer, self._watchers = writer, watchers

    @property
    def is_waiting(self) -> bool:
        """Whether the client has not taken all of it yet."""
        return self._writer.is_waiting

    def write(self, piece: bytes) -> bool:
        """Show *piece* and send it; a watcher that fails sees no more of this body."""
        for watch in self._watchers:
            try:
                watch(piece)
            except Exception:  # noqa: BLE001 - see above
                _log_failure("watcher", watch, "")
                self._watchers = [each for each in self._watchers if each is not watch]
        return self._writer.write(piece)

    def end(self) -> None:
        """Send the end."""
        self._writer.end()


def _checked(response: object) -> HttpResponse:
    if not isinstance(response, HttpResponse):
        raise TypeError(f"a filter returned {type(response).__name__}")
    return response


def _log_failure(kind: str, function: object, request_id: str) -> None:
    """Log the exception being handled; the traceback names the plugin, too."""
    named = getattr(function, "func", function)  # the function of a ``partial``
    if not hasattr(named, "__qualname__"):
        named = type(named)
    name = f"{named.__module__}.{named.__qualname__}"
    request = f", request {request_id}" if request_id else ""
    log.exception("%s %s failed%s", kind, name, request)
