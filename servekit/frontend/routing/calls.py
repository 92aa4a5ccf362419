# SPDX-License-Identifier: Apache-2.0
"""Predictions that services ask for: the front-end treats each as a request of its caller."""

from __future__ import annotations

import math
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import (
    DeadlineExceeded,
    Forbidden,
    ModelNotFound,
    NotAcceptable,
    RequestError,
    ServekitError,
)
from servekit.extension.background import NoWriter
from servekit.extension.base_exchange import BaseExchange
from servekit.extension.http import HttpRequest
from servekit.frontend.http.fields import TIMEOUT_FIELD
from servekit.ipc.batches import QUERY, VALUE
from servekit.ipc.calls import CallAnswer
from servekit.service.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.extension.exchange import BodyWriter, OutputStream
    from servekit.extension.http import HttpResponse
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.routing.router import Router
    from servekit.frontend.tracing.traces import Traces
    from servekit.ipc.calls import ModelCall
    from servekit.ipc.table import ModelRow

__all__ = ["ModelCalls"]

MOST_MS = 999_999_999  #: the longest timeout that a request can ask for


class ModelCalls:
    """Begins the calls of all workers of one front-end."""

    def __init__(self, router: Router, traces: Traces | None = None) -> None:
        """Find the called models in *router*.

        :param traces: if a plugin wants them.
        """
        self._router, self._traces = router, traces

    def begin(
        self, caller: ModelRow, call: ModelCall, answer: Callable[[CallAnswer], None]
    ) -> CallExchange:
        """Queue the prediction that a worker of *caller* asks for, or refuse it at once."""
        exchange = CallExchange(call.number, answer)
        route = self._router.find_call(call.model, "")
        if call.model not in caller.manifest.get("calls", ()):
            error: ServekitError = Forbidden(f"calls of {caller.name} does not name {call.model}")
            exchange.fail(error, call.request_id)
        elif route is None:
            exchange.fail(ModelNotFound(f"no model is called {call.model}"), call.request_id)
        elif call.deadline <= monotonic():
            exchange.fail(DeadlineExceeded(), call.request_id)
        else:
            exchange.request = request = request_of(call, route)
            if self._traces is not None:
                self._traces.sample(exchange, request)
            route.begin(exchange, request)
        return exchange


def request_of(call: ModelCall, route: PredictionRoute) -> HttpRequest:
    """Return *call* as a request for *route*, with what it inherits from the calling one."""
    headers = {
        name.encode(): text.encode("latin-1")
        for name, text in call.headers.items()
        if not name.startswith(QUERY)
    }
    headers |= {b"content-type": VALUE.encode(), b"accept": VALUE.encode()}
    headers.pop(TIMEOUT_FIELD, None)
    if call.deadline < math.inf:
        left_ms = max(1, int((call.deadline - monotonic()) * 1000))
        headers[TIMEOUT_FIELD] = b"%d" % min(left_ms, MOST_MS)
    request = HttpRequest(
        method=b"POST",
        target=f"/{call.model}/predict".encode(),
        headers=headers,
        body=route.bodies.lay([call.body]),
        keeps_alive=True,
        version="1.1",
        route=route,
        request_id=call.request_id,
    )
    if call.identity is not None:
        request.identity = Identity(*call.identity)
    return request


class CallExchange(BaseExchange):
    """Hands the response of one call to the worker that waits for it."""

    is_encrypted, subject = False, ""  #: a call has no client

    def __init__(self, number: int, answer: Callable[[CallAnswer], None]) -> None:
        """Pass the outcome of call *number* to *answer*."""
        super().__init__(None)
        self._number = number
        self._answer = answer

    @property
    def is_over(self) -> bool:
        """Whether it has been answered or dropped."""
        return self.is_closed

    def cancel(self) -> None:
        """Drop it: nobody waits for its answer any more."""
        self.is_closed = True
        prediction, self.prediction = self.prediction, None
        if prediction is not None:
            prediction.cancel()

    def send(self, response: HttpResponse) -> None:
        """Answer with the output in *response*.

        The caller cannot read an output for which the service has set the content type.
        """
        status, media_type = response.status, response.media_type
        if media_type == VALUE:
            self._end(CallAnswer(self._number, status, bytes(response.body)))
        elif status < HTTPStatus.BAD_REQUEST:
            self.fail(NotAcceptable(f"{media_type} is not an output of a call"), "")
        else:
            self._end(CallAnswer(self._number, status, detail=f"the answer is {media_type}"))
        response.discard()

    def fail(self, error: ServekitError, _request_id: str) -> None:
        """Answer with *error*."""
        if not self.is_closed:
            answer = CallAnswer(self._number, error.status, detail=error.title)
            if isinstance(error, RequestError):
                answer.detail, answer.errors = error.detail or error.title, error.errors
            self._end(answer)

    def begin_stream(self, _stream: OutputStream, response: HttpResponse) -> BodyWriter:
        """Answer with an error: a call gets its output whole."""
        prediction = self.prediction
        self.fail(NotAcceptable("a called model cannot answer with a stream"), response.request_id)
        if prediction is not None:
            prediction.cancel()
        return NoWriter()

    def end_stream(self, _size: int, _status: int = 200) -> None:
        """Do nothing: the stream was dropped."""

    def reset(self) -> None:
        """Do nothing: the stream was dropped."""

    def _end(self, answer: CallAnswer) -> None:
        self.is_closed, self.prediction = True, None
        self.observe_end(answer.status, len(answer.body))
        self._answer(answer)
