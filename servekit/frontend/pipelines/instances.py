# SPDX-License-Identifier: Apache-2.0
"""Routes whose body is ``{"instances": [...]}``: each instance goes through the pipeline by itself.

A worker reads the body and writes the instances apart. Then each is a run of its own. Its place in
the answer holds its output, or what was wrong with it alone.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from msgspec import json, structs

from servekit.errors import InputError, NotSupported, WorkerLost, problem_of
from servekit.extension.http import HttpResponse
from servekit.frontend.pipelines import values
from servekit.frontend.pipelines.pipeline import REQUEST, Node, Pipeline
from servekit.frontend.pipelines.route import PipelineRoute
from servekit.frontend.pipelines.run import PipelineRun
from servekit.frontend.pipelines.submission import ClientResponder, Submission, submit
from servekit.ipc.batches import VALUE, VALUES, Item, MethodCall, Reading
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
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
        submission, refusal = submit(request, self._pipeline.predict_timeout_s)
        if call is not None:
            refusal = NotSupported("a model whose body holds instances has no such route")
        responder = ClientResponder(exchange, self.metrics, submission)
        exchange.prediction = run = InstancesRun(self._pipeline, submission, responder)
        run.begin(refusal)


class InstancesRun:
    """One request of several instances: the ``Prediction`` of its exchange.

    It is also the ``Responder`` of the run that reads the body.
    """

    __slots__ = (
        *("_client", "_has_failed", "_is_done", "_missing", "_pipeline", "_predictions"),
        *("_runs", "_submission"),
    )

    exchange: Final = None  #: the instances are of use only once all are read

    def __init__(self, pipeline: Pipeline, submission: Submission, client: ClientResponder) -> None:
        """Send every instance of *submission* through *pipeline*."""
        self._pipeline, self._submission, self._client = pipeline, submission, client
        self._runs: list[PipelineRun] = []
        self._predictions: list[bytes] = []  #: JSON; b"" for those that are missing
        self._missing = 0
        self._has_failed = self._is_done = False

    @property
    def is_sent(self) -> bool:
        """No: as in ``PipelineRun``."""
        return False

    def cancel(self) -> None:
        """Drop all of it: the client has disconnected."""
        self._is_done = True
        for run in self._runs:
            run.cancel()

    # ------------------------------------------------------------ the body is read

    def begin(self, refusal: ServekitError | None) -> None:
        """Have the body read.

        :param refusal: why it is not taken, if that is known already.
        """
        reader = Node("", self._pipeline.nodes[0].batcher, [REQUEST], calls=READ)
        item = structs.replace(self._submission.item, accept=VALUES.encode())
        submission = structs.replace(self._submission, item=item)
        run = PipelineRun(Pipeline([reader], self._pipeline.loop), submission, self)
        self._runs = [run]
        run.begin(refusal or self._pipeline.refusal(0))

    def respond(self, response: HttpResponse) -> None:
        """Start a run for each of the instances that the body holds.

        :raises ChannelClosed: the worker did not write a list.
        """
        try:
            parts = [bytes(part) for part in values.split(response.body)]
        except ChannelClosed:
            self.fail(WorkerLost())
            raise
        finally:
            response.discard()
        if self._is_done:
            return
        limit = self._pipeline.nodes[0].batcher.queue.capacity
        if len(parts) > limit:
            self.fail(InputError(f"instances: {len(parts)} of them, limit {limit}"))
        else:
            self._start(parts)

    def fail(self, error: ServekitError) -> None:
        """Respond with *error*: there are no instances."""
        if not self._is_done:
            self._is_done = True
            self._client.fail(error)

    def end_stream(self, now: float) -> None:
        """Never called: nothing streams without an exchange."""

    # ------------------------------------------------------------ each by itself

    def _start(self, parts: list[bytes]) -> None:
        sent, now = self._submission.item, monotonic()
        self._predictions, self._missing = [b""] * len(parts), len(parts)
        self._runs, types = [], (VALUE.encode(), JSON.encode())
        for at, part in enumerate(parts):
            item: SentItem = Item(part, *types, sent.request_id, sent.deadline)
            item.identity = sent.identity
            submission = Submission(item, self._submission.headers, now, self._submission.until)
            responder = InstanceResponder(partial(self._take, at), sent.request_id)
            run = PipelineRun(self._pipeline, submission, responder)
            self._runs.append(run)
            run.begin()
        if not parts:
            self._finish()

    def _take(self, at: int, prediction: bytes, *, is_error: bool) -> None:
        self._predictions[at] = prediction
        self._has_failed |= is_error
        self._missing -= 1
        if not self._missing and not self._is_done:
            self._finish()

    def _finish(self) -> None:
        self._is_done = True
        status = MULTI_STATUS if self._has_failed else 200
        body = b'{"predictions":[%b]}' % b",".join(self._predictions)
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
