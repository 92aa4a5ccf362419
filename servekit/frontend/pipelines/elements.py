# SPDX-License-Identifier: Apache-2.0
"""One request of several inputs, each of which goes through a pipeline by itself.

A worker reads the body and writes the inputs apart. Then each goes through the pipeline separately.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

from servekit.errors import InputError, WorkerLost
from servekit.frontend.pipelines import values
from servekit.frontend.pipelines.pipeline import Pipeline
from servekit.frontend.pipelines.run import PipelineRun
from servekit.frontend.pipelines.submission import Submission
from servekit.ipc.batches import VALUE, Item
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.extension.http import HttpResponse
    from servekit.frontend.pipelines.pipeline import Node
    from servekit.frontend.pipelines.submission import ClientResponder, Responder
    from servekit.ipc.batches import SentItem

__all__ = ["ElementsRun"]


class ElementsRun:
    """The ``Prediction`` of an exchange, and the ``Responder`` of the run that reads the body.

    Subclasses say how inputs are read, and what becomes of their outputs.
    """

    __slots__ = (
        *("_client", "_is_done", "_missing", "_outputs", "_pipeline", "_runs", "_submission"),
    )

    exchange: Final = None  #: the inputs are of use only once all are read
    accept = VALUE.encode()  #: what outputs are written as

    def __init__(self, pipeline: Pipeline, submission: Submission, client: ClientResponder) -> None:
        """Send every input of *submission* through *pipeline*."""
        self._pipeline, self._submission, self._client = pipeline, submission, client
        self._runs: list[PipelineRun] = []
        self._outputs: list[bytes] = []  #: b"" for those that are missing
        self._missing = 0
        self._is_done = False

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
        """Start the step that reads the body.

        :param refusal: why it is not taken, if that is known already.
        """
        reader, item = self._reader()
        sent = self._submission
        submission = Submission(item, sent.headers, sent.arrived, sent.until, trace=sent.trace)
        run = PipelineRun(Pipeline([reader], self._pipeline.loop), submission, self)
        self._runs = [run]
        run.begin(refusal or self._pipeline.refusal(0))

    def _reader(self) -> tuple[Node, SentItem]:
        """Return the node that reads the body, and what it gets."""
        raise NotImplementedError

    def respond(self, response: HttpResponse) -> None:
        """Start a run for each of the inputs that the body holds.

        :raises ChannelClosed: the worker did not write a list.
        """
        try:
            parts = [bytes(part) for part in values.split(response.body)]
        except ChannelClosed:
            self.fail(WorkerLost())
            raise
        finally:
            response.discard()
        if not self._is_done:
            self._start(parts)

    def fail(self, error: ServekitError) -> None:
        """Respond with *error*."""
        if not self._is_done:
            self._is_done = True
            self._client.fail(error)

    def end_stream(self, now: float) -> None:
        """Never called: nothing streams without an exchange."""

    # ------------------------------------------------------------ each by itself

    def _start(self, parts: list[bytes]) -> None:
        limit = self._pipeline.nodes[0].batcher.queue.capacity
        if len(parts) > limit:
            self.fail(InputError(f"instances: {len(parts)} of them, limit {limit}"))
            return
        sent, now = self._submission.item, monotonic()
        self._outputs, self._missing, self._runs = [b""] * len(parts), len(parts), []
        for at, part in enumerate(parts):
            if self._is_done:  # one before has failed for all
                return
            types = VALUE.encode(), self.accept
            item: SentItem = Item(part, *types, sent.request_id, sent.deadline)
            item.identity = sent.identity
            whole = self._submission
            submission = Submission(item, whole.headers, now, whole.until, whole.style, whole.trace)
            run = PipelineRun(self._pipeline, submission, self._responder(at))
            self._runs.append(run)
            run.begin()
        if not parts:
            self._finish()

    def _responder(self, at: int) -> Responder:
        """Return what gets the output of the input at *at*, and calls ``_take`` with it."""
        raise NotImplementedError

    def _take(self, at: int, output: bytes) -> None:
        self._outputs[at] = output
        self._missing -= 1
        if not self._missing and not self._is_done:
            self._finish()

    def _finish(self) -> None:
        """Respond with all outputs."""
        raise NotImplementedError
