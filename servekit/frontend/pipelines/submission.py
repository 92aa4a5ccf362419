# SPDX-License-Identifier: Apache-2.0
"""The input of a pipeline, and the receiver of its output."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from servekit.frontend.batching.task_route import deadlines_of, item_of
from servekit.frontend.http.fields import with_query

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest, HttpResponse
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.frontend.tracing.trace import RequestTrace
    from servekit.ipc.batches import ProtocolCall, SentItem
    from servekit.ipc.response_style import ResponseStyle

__all__ = ["ClientResponder", "Responder", "Submission", "submit"]


class Submission(Struct, eq=False):
    """A request, or one instance of it, before its first node."""

    item: SentItem
    headers: dict[bytes, bytes]  #: the request's, with its query; each node gets what it asked for
    arrived: float  #: ``monotonic``
    until: float  #: ``monotonic``: when the client wants to have all of a stream
    style: ResponseStyle | None = None  #: how the last node writes the output
    trace: RequestTrace | None = None  #: of the request, if a plugin wants traces


def submit(
    request: HttpRequest,
    timeout_s: float,
    call: ProtocolCall | None = None,
    style: ResponseStyle | None = None,
) -> tuple[Submission, ServekitError | None]:
    """Return the input that *request* is for a pipeline, and its refusal, if there is one.

    :param style: of the route; a protocol has its own.
    """
    now = monotonic()
    deadline, until, refusal = deadlines_of(request.headers, timeout_s, now)
    headers = with_query(request.headers, request.target)
    item = item_of(request, deadline, (), call, style)
    return Submission(item, headers, now, until, item.style), refusal


class Responder(Protocol):
    """Gets the outcome of a run: one call of one of its methods."""

    @property
    def exchange(self) -> Exchange | None:
        """The client's, to stream to; ``None`` if only a whole response is useful."""

    def respond(self, response: HttpResponse) -> None:
        """Take the output of the last node."""

    def fail(self, error: ServekitError) -> None:
        """Take the error that ended the run."""

    def end_stream(self, now: float) -> None:
        """All outputs of the last node have been sent to the exchange."""


class ClientResponder:
    """Responds to a client, and counts the request."""

    __slots__ = ("_arrived", "_metrics", "_request_id", "exchange")

    def __init__(self, exchange: Exchange, metrics: ModelMetrics, submission: Submission) -> None:
        """Respond on *exchange*, and count in *metrics*."""
        self.exchange = exchange
        self._metrics = metrics
        self._arrived, self._request_id = submission.arrived, submission.item.request_id

    def respond(self, response: HttpResponse) -> None:
        """Send *response*."""
        self._metrics.observe_response(response.status, monotonic() - self._arrived)
        self.exchange.respond(response)

    def fail(self, error: ServekitError) -> None:
        """Respond with the problem details of *error*; a stream ends with them."""
        self._metrics.count_failure(error.status, monotonic() - self._arrived)
        self.exchange.fail(error, self._request_id)

    def end_stream(self, now: float) -> None:
        """All outputs have been sent to the exchange."""
        self._metrics.observe_response(200, now - self._arrived)
