# SPDX-License-Identifier: Apache-2.0
"""The run of one request through the nodes of a pipeline.

Each node is a task in the batcher of its stage, or one task for each element of a list. An output
is handed on as it came: bytes, which are cut up and put together but never decoded here. The first
error is the answer, and tasks that have not been answered are dropped. If the last node streams,
its outputs are sent as they come; any other node hands on the list of them.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from servekit.counting import counted
from servekit.errors import InputError, ResultNotEncodable, WorkerLost
from servekit.frontend.batching.task_route import make_task
from servekit.frontend.http.fields import TRACE, picked
from servekit.frontend.pipelines import values
from servekit.frontend.pipelines.pipeline import REQUEST
from servekit.frontend.pipelines.values import Gathering, StepValue
from servekit.ipc.batches import Item, Slab
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.errors import ServekitError
    from servekit.extension.http import HttpResponse
    from servekit.frontend.batching.task import Task
    from servekit.frontend.pipelines.pipeline import Node, Pipeline
    from servekit.frontend.pipelines.submission import Responder, Submission
    from servekit.frontend.tracing.trace import RequestTrace
    from servekit.ipc.batches import SentItem

__all__ = ["PipelineRun"]

Content = bytes | memoryview


class TaskPlace(NamedTuple):
    """The purpose of a task of a run."""

    at: int  #: the node
    element: int  #: of the list, if each is a task
    begun: float  #: ``monotonic``


class PipelineRun:
    """The ``Prediction`` of its exchange, or a part of it; the ``Consumer`` of its tasks."""

    __slots__ = (
        *("_gatherings", "_is_done", "_pipeline", "_request", "_responder", "_submission"),
        *("_tasks", "_timing", "_values"),
    )

    def __init__(self, pipeline: Pipeline, submission: Submission, responder: Responder) -> None:
        """Hold all stages of *pipeline* until the end."""
        self._pipeline, self._submission, self._responder = pipeline, submission, responder
        self._is_done = False
        self._values: list[StepValue | None] = [None] * len(pipeline.nodes)
        self._gatherings: dict[int, Gathering] = {}  #: outputs of elements, by node
        self._tasks: dict[Task, TaskPlace] = {}  #: that have no answer yet
        self._timing: list[bytes] = []
        item, bodies = submission.item, pipeline.bodies
        self._request = StepValue(bodies.content(item.body), item.content_type)
        self._request.uses = sum(REQUEST in node.sources for node in pipeline.nodes)
        if isinstance(slab := item.body, Slab):
            self._request.release = lambda: bodies.free(slab)
        pipeline.hold(+1)

    @property
    def trace(self) -> RequestTrace | None:
        """The trace of its request, until it is over."""
        return None if self._is_done else self._submission.trace

    # ------------------------------------------------------------ what the exchange needs

    @property
    def is_sent(self) -> bool:
        """No: outputs between nodes are no answer, so a client that closes one side is gone."""
        return False

    def cancel(self) -> None:
        """Drop it: the client has disconnected."""
        if not self._is_done:
            self._end()

    # ------------------------------------------------------------ from node to node

    def begin(self, refusal: ServekitError | None = None) -> None:
        """Start the nodes that need nothing but the request.

        :param refusal: why it is not taken, if that is known already.
        """
        refusal = refusal or self._pipeline.refusal(len(self._request.content))
        if refusal is not None:
            self.fail(refusal)
            return
        for at in self._pipeline.first:
            self._start(at)

    def _start(self, at: int) -> None:
        """Start the node at *at*, all of whose inputs are there."""
        if self._is_done:
            return
        node = self._pipeline.nodes[at]
        sources = [self._source(source) for source in node.sources]
        if not all(map(node.takes, sources)):
            self.fail(ResultNotEncodable())
            return
        if node.is_each:
            self._start_each(at, node, sources[0])
        elif self._may_give_away(node):
            self._request.release = None
            self._put(at, node, self._submission.item.body, self._request.content_type)
        else:
            pieces = values.joined(node.names, sources, node.several)
            self._send(at, node, pieces, node.single if node.names else sources[0].content_type)
        for value in dict.fromkeys(sources):
            value.use()

    def _start_each(self, at: int, node: Node, value: StepValue) -> None:
        parts, queue = values.split(value.content), node.batcher.queue
        if len(parts) > queue.capacity:
            elements = counted(len(parts), "element")
            self.fail(InputError(f"{node.label}: {elements}, limit {queue.capacity}"))
        elif len(parts) + len(queue) > queue.capacity:
            self.fail(node.batcher.admission.queue_full())
        elif parts:
            self._gatherings[at] = Gathering(len(parts), node.several)
            for element, part in enumerate(parts):
                self._send(at, node, [part], node.single, element)
        else:
            self._give(at, Gathering(0, node.several).finish())

    def _send(
        self, at: int, node: Node, pieces: Sequence[Content], content_type: bytes, element: int = 0
    ) -> None:
        if not self._is_done:
            self._put(at, node, node.batcher.bodies.lay(pieces), content_type, element)

    def _may_give_away(self, node: Node) -> bool:
        """Whether the body of the request lies where *node* needs it, and is for *node* alone."""
        is_only = node.sources == [REQUEST] and not node.names and self._request.uses == 1
        is_there = node.batcher.bodies is self._pipeline.bodies
        return is_only and is_there and isinstance(self._submission.item.body, Slab)

    def _put(
        self, at: int, node: Node, body: bytes | Slab, content_type: bytes, element: int = 0
    ) -> None:
        now, sent, headers = monotonic(), self._submission.item, self._submission.headers
        item: SentItem = Item(
            body, content_type, node.accept or sent.accept, sent.request_id, sent.deadline
        )
        item.calls, item.protocol, item.identity = node.calls, sent.protocol, sent.identity
        if not node.accept:  # the last one
            item.style = self._submission.style
        if node.asked or TRACE in headers:
            item.headers = picked(headers, node.asked)
        exchange, until = self._responder.exchange, self._submission.until
        task = make_task(node.batcher, exchange, item, now, until, self)
        self._tasks[task] = TaskPlace(at, element, now)
        node.batcher.put(task)

    def take(self, task: Task, response: HttpResponse) -> None:
        """Continue with the output of *task*.

        :raises ChannelClosed: it is malformed.
        """
        place = self._tasks.pop(task)
        if self._is_done:
            response.discard()
            return
        try:
            self._go_on(place, response)
        except ChannelClosed:
            response.discard()
            self.fail(WorkerLost())
            raise

    def _go_on(self, place: TaskPlace, response: HttpResponse) -> None:
        at, node = place.at, self._pipeline.nodes[place.at]
        value = StepValue(response.body, response.media_type.encode(), response.discard)
        gathering = self._gatherings.get(at)
        if gathering is not None:
            if value.content_type != (node.accept or node.single):
                value.drop()
                self.fail(ResultNotEncodable())
                return
            if not gathering.put(place.element, value):
                return
            value = self._gatherings.pop(at).finish()
        if node.label:
            took_ms = (monotonic() - place.begun) * 1e3
            self._timing.append(b"%b;dur=%.3f" % (node.label.encode(), took_ms))
        if at == len(self._values) - 1:
            self._respond(response)
        else:
            self._give(at, value)

    def _give(self, at: int, value: StepValue) -> None:
        """Hand the output of the node at *at* to those that follow."""
        followers = self._pipeline.nodes[at].followers
        value.uses = len(followers)
        self._values[at] = value
        # all are looked at before any starts: one that starts may give at once, and start others
        for follower in [each for each in followers if self._is_ready(each)]:
            self._start(follower)

    def _is_ready(self, at: int) -> bool:
        sources = self._pipeline.nodes[at].sources
        return all(source == REQUEST or self._values[source] is not None for source in sources)

    def _source(self, at: int) -> StepValue:
        value = self._request if at == REQUEST else self._values[at]
        assert value is not None
        return value

    # ------------------------------------------------------------ the end

    def _respond(self, response: HttpResponse) -> None:
        response.timing = b", ".join(self._timing)
        self._end()
        self._responder.respond(response)

    def begin_stream(self) -> tuple[float, bytes]:
        """Return when the request arrived, and ``Server-Timing`` of all nodes but the last one."""
        return self._submission.arrived, b"".join(each + b", " for each in self._timing)

    def end_stream(self, task: Task, now: float) -> None:
        """All outputs of *task*, of the last node, have been sent."""
        self._tasks.pop(task, None)
        if not self._is_done:
            self._end()
            self._responder.end_stream(now)

    def fail(self, error: ServekitError) -> None:
        """End with *error*, unless it is over."""
        if not self._is_done:
            self._end()
            self._responder.fail(error)

    def _end(self) -> None:
        """Release everything, and drop the tasks that have not finished."""
        self._is_done = True
        self._pipeline.hold(-1)
        for gathering in self._gatherings.values():
            gathering.drop()
        for value in (self._request, *self._values):
            if value is not None:
                value.drop()
        if self._tasks:  # later: a queue may be answering one of them right now
            self._pipeline.loop.run_callback(_cancel, list(self._tasks))


def _cancel(tasks: list[Task]) -> None:
    for task in tasks:
        task.cancel()
