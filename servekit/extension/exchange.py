# SPDX-License-Identifier: Apache-2.0
"""The interface of a request that waits for its response, in the event loop of a front-end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.extension.http import HttpRequest, HttpResponse
    from servekit.extension.protocol import Protocol as ApiProtocol

__all__ = [
    "BodyWriter",
    "Exchange",
    "InThread",
    "Observer",
    "OutputStream",
    "Prediction",
    "ResponseFilter",
]


class InThread(NamedTuple):
    """Returned by a filter whose work takes more than a few hundred microseconds."""

    work: Callable[[], Any]  #: runs in a thread
    finish: Callable[[Any], HttpResponse]  #: gets what *work* returned; runs in the event loop


#: returns the response to send: the one it was given, changed or not, or another one after
#: ``discard``. If it raises, the client gets a 500. It may change only the status, the fields and
#: the watchers of a response that ``is_streamed``
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
    request: HttpRequest | None  #: the one that is being answered, where the transport says it
    trace: Any  #: a ``RequestTrace`` of the front-end, if the request is traced
    tells_when_sent: bool  #: it ends its trace when the client has the response
    prediction: Prediction | None  #: the work for this request, while there is any
    protocol: ApiProtocol | None  #: that the request comes by, which decides the shape of errors
    model_version: bytes  #: of the model that answers; b"" until that is known

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
        """Pass the response to this request through *change* before it is sent."""

    def add_observer(self, ended: Observer) -> None:
        """Call *ended* when the response has been sent, or the client has disconnected."""

    def begin_stream(self, stream: OutputStream, response: HttpResponse) -> BodyWriter:
        """Send the head of *response*, and return what sends its body; then ``end_stream``."""

    def end_stream(self, size: int, status: int = 200) -> None:
        """The body has been handed over, *size* bytes of it.

        :param status: that of the error that ended the stream, if one did.
        """

    def reset(self) -> None:
        """Close at once: the client does not read what it is sent."""
