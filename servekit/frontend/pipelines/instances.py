# SPDX-License-Identifier: Apache-2.0
"""Routes whose body is ``{"instances": [...]}``.

The place of each instance in the answer holds its output, or what was wrong with it alone.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from msgspec import json, structs

from servekit.errors import problem_of
from servekit.extension.http import HttpResponse
from servekit.frontend.batching.task_route import style_for
from servekit.frontend.pipelines.elements import ElementsRun
from servekit.frontend.pipelines.pipeline import REQUEST, Node
from servekit.frontend.pipelines.route import PipelineRoute
from servekit.frontend.pipelines.submission import ClientResponder, submit
from servekit.ipc.batches import VALUES, MethodCall, Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.frontend.pipelines.pipeline import Pipeline
    from servekit.frontend.pipelines.submission import Submission
    from servekit.ipc.batches import ProtocolCall, SentItem

__all__ = ["InstancesRoute", "InstancesRun"]

JSON: Final = "application/json"
MULTI_STATUS: Final = 207  #: some instances were refused
READ: Final = (MethodCall(method=Reading.INSTANCES),)


class InstancesRoute(PipelineRoute):
    """A path whose requests hold several inputs."""

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Start to predict the instances of *request*, or respond at once."""
        if call is not None and call.envelope:
            super().begin(exchange, request, call)
            return
        style = style_for(self._style, call)
        whole = style.whole if style is not None else None
        submission, refusal = submit(request, self._pipeline.predict_timeout_s, None, whole)
        submission.trace = self._pipeline.trace_of(exchange, request, submission.arrived)
        responder = ClientResponder(exchange, self.metrics, submission)
        exchange.prediction = run = InstancesRun(self._pipeline, submission, responder)
        run.begin(refusal)


class InstancesRun(ElementsRun):
    """One request of several instances."""

    __slots__ = ("_has_failed",)

    accept = JSON.encode()

    def __init__(self, pipeline: Pipeline, submission: Submission, client: ClientResponder) -> None:
        """Send every instance of *submission* through *pipeline*."""
        super().__init__(pipeline, submission, client)
        self._has_failed = False

    def _reader(self) -> tuple[Node, SentItem]:
        reader = Node("", self._pipeline.nodes[0].batcher, [REQUEST], calls=READ)
        return reader, structs.replace(self._submission.item, accept=VALUES.encode())

    def _responder(self, at: int) -> InstanceResponder:
        return InstanceResponder(partial(self._take_json, at), self._submission.item.request_id)

    def _take_json(self, at: int, prediction: bytes, *, is_error: bool) -> None:
        self._has_failed |= is_error
        self._take(at, prediction)

    def _finish(self) -> None:
        self._is_done = True
        status = MULTI_STATUS if self._has_failed else 200
        style, outputs = self._submission.style, b",".join(self._outputs)
        is_bare = style is not None and style.is_bare
        body = b"[%b]" % outputs if is_bare else b'{"predictions":[%b]}' % outputs
        timing = b"total;dur=%.3f" % ((monotonic() - self._submission.arrived) * 1e3)
        request_id = self._submission.item.request_id
        self._client.respond(HttpResponse(status, body, JSON, request_id, timing))


class InstanceResponder:
    """Puts the outcome of one instance into the answer of its request."""

    exchange: Final = None  #: an instance is a part of an answer

    def __init__(self, take: Callable[..., None], request_id: str) -> None:
        """Call *take* with JSON, and whether it is an error."""
        self._take, self._request_id = take, request_id

    def respond(self, response: HttpResponse) -> None:
        """Take the output of the last node, which is JSON."""
        prediction = bytes(response.body)
        response.discard()
        self._take(prediction, is_error=False)

    def fail(self, error: ServekitError) -> None:
        """Take what was wrong with this instance."""
        members = problem_of(error, self._request_id)
        self._take(json.encode({"error": members}), is_error=True)

    def end_stream(self, now: float) -> None:
        """Never called: nothing streams without an exchange."""
