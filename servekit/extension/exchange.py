# SPDX-License-Identifier: Apache-2.0
"""A request that waits for its response, in the event loop of a front-end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from servekit.errors import ServekitError
from servekit.extension.problems import problem_response

if TYPE_CHECKING:
    from servekit.extension.http import HttpResponse
    from servekit.extension.protocol import Protocol as ApiProtocol

__all__ = [
    "BaseExchange",
    "BodyWriter",
    "Exchange",
    "InThread",
    "Observer",
    "OutputStream",
    "Prediction",
    "ResponseFilter",
]

log = logging.getLogger("servekit.frontend")


class InThread(NamedTuple):
    """Returned by a filter whose work takes more than a few hundred microseconds."""

    work: Callable[[], Any]  #: runs in a thread
    finish: Callable[[Any], HttpResponse]  #: gets what *work* returned; runs in the event loop


#: returns the response to send: the one it was given, changed or not, or another one after
#: ``discard``. If it raises, the client gets a 500. It may change only the status and the fields
#: of a response that ``is_streamed``
ResponseFilter = Callable[["HttpResponse"], "HttpResponse | InThread"]
#: gets the status and the number of bytes of the body that were sent; the status is ``None`` if the
#: client disconnected before the response
Observer = Callable[[int | None, int], None]


class Prediction(Protocol):
    """The work for a request: a task, a run through a pipeline, or a job."""

    @property
    def is_sent(self) -> bool:
        """Whether a worker has it."""

    def cancel(self) -> None:
        """Drop it: the client has disconnected."""


class OutputStream(Protocol):
    """A streamed response that has begun."""

    def fail(self, error: ServekitError) -> None:
        """End it with *error*."""


class BodyWriter(Protocol):
    """Sends the body of a streamed response piece by piece."""

    @property
    def is_waiting(self) -> bool:
        """Whether the client has not taken all of it yet."""

    def write(self, piece: bytes) -> bool:
        """Send *piece*; return whether the client keeps up."""

    def end(self) -> None:
        """Send the end: nothing more will come."""


class Exchange(Protocol):
    """One request whose client waits for a response."""

    peer: Any  #: the client's address, as ``accept`` returns it
    is_closed: bool  #: nobody waits for the response any more
    prediction: Prediction | None  #: the work for this request, while there is any
    protocol: ApiProtocol | None  #: that the request comes by, which decides the shape of errors

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""

    @property
    def subject(self) -> str:
        """Subject of the client's certificate; "" without one."""

    def respond(self, response: HttpResponse) -> None:
        """Send *response*, after the filters that middleware has added. Called once at most."""

    def fail(self, error: ServekitError, request_id: str) -> None:
        """Respond with the problem details of *error* (RFC 9457); a stream ends with them."""

    def add_filter(self, change: ResponseFilter) -> None:
        """Have *change* see the response to this request before it is sent."""

    def add_observer(self, ended: Observer) -> None:
        """Have *ended* called when the response has been sent, or the client has disconnected."""

    def begin_stream(self, stream: OutputStream, response: HttpResponse) -> BodyWriter:
        """Send the head of *response*, and return what sends its body; then ``end_stream``."""

    def end_stream(self, size: int, status: int = 200) -> None:
        """The body has been handed over, *size* bytes of it.

        :param status: that of the error that ended the stream, if one did.
        """

    def reset(self) -> None:
        """Close at once: the client does not read what it is sent."""


class BaseExchange:
    """Passes responses through the filters of middleware, and errors on as responses."""

    __slots__ = ("filters", "is_closed", "observers", "peer", "prediction", "protocol", "stream")

    def __init__(self, peer: Any) -> None:
        """Wait for a request of the client at the address *peer*."""
        self.peer = peer
        self.is_closed = False
        self.prediction: Prediction | None = None
        self.protocol: ApiProtocol | None = None
        self.stream: OutputStream | None = None  #: the response, if it is streamed and has begun
        self.filters: list[ResponseFilter] | None = None
        self.observers: list[Observer] | None = None

    def add_filter(self, change: ResponseFilter) -> None:
        """Have *change* see the response to this request before it is sent."""
        if self.filters is None:
            self.filters = []
        self.filters.append(change)

    def add_observer(self, ended: Observer) -> None:
        """Have *ended* called with the status, or ``None``, and the bytes of the body."""
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
            self.send(response)

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

    def _respond_filtered(self, response: HttpResponse, filters: list[ResponseFilter]) -> None:
        while filters:
            change = filters.pop()  # the middleware nearest to the route comes first
            try:
                found = change(response)
            except Exception:  # noqa: BLE001 - a plugin may raise anything
                found = self._failed(change, response)
            if isinstance(found, InThread):
                import gevent  # not above: hook modules are imported in workers, too

                gevent.spawn(self._respond_later, change, found, response, filters)
                return
            response = found
        self.send(response)

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
            response = later.finish(gevent.get_hub().threadpool.apply(later.work))
        except Exception:  # noqa: BLE001 - see above
            response = self._failed(change, response)
        if self.is_closed:
            response.discard()
        else:
            self._respond_filtered(response, filters)

    def _failed(self, change: ResponseFilter, response: HttpResponse) -> HttpResponse:
        """Return what the client gets in place of a *response* that *change* failed for."""
        _log_failure(change, response)
        response.discard()
        return self._error_response(ServekitError(), response.request_id)

    def filter_stream(self, head: HttpResponse) -> HttpResponse:
        """Return the *head* of a streamed response after the filters.

        One that fails is left out: the stream has begun.
        """
        filters, self.filters = self.filters or [], None
        while filters:
            change = filters.pop()
            try:
                found = change(head)
                head = found.finish(found.work()) if isinstance(found, InThread) else found
            except Exception:  # noqa: BLE001 - see above
                _log_failure(change, head)
        return head

    def observe_end(self, status: int | None, size: int) -> None:
        """Tell the observers how this exchange ended."""
        observers, self.observers = self.observers or [], None
        for ended in observers:
            ended(status, size)


def _log_failure(change: ResponseFilter, response: HttpResponse) -> None:
    """Log the exception being handled; the traceback names the plugin, too."""
    named = getattr(change, "func", change)  # the function of a ``partial``
    if not hasattr(named, "__qualname__"):
        named = type(named)
    name = f"{named.__module__}.{named.__qualname__}"
    log.exception("response filter %s failed, request %s", name, response.request_id)
