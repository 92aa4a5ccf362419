# SPDX-License-Identifier: Apache-2.0
"""One request on its way through the steps of a pipeline.

Each step is a task in the batcher of its stage, or one for each element of a list. What a
step gives is handed on as it came: bytes, which are cut up and put together but never
decoded here. The first error is the answer, and what is still under way is dropped. Where the
last step streams, its outputs go out as they come; any other step hands on the list of them.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from servekit.counting import counted
from servekit.errors import InputError, QueueFull, ResultNotEncodable, WorkerLost
from servekit.extension.http import HttpResponse
from servekit.frontend.batching.admission import pass_on
from servekit.frontend.batching.task import Task, make_task
from servekit.frontend.exchange.answer_checks import check_fields, media_types
from servekit.frontend.pipelines import values
from servekit.ipc.batches import VALUE, VALUES, Item, Slab
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.errors import ServekitError
    from servekit.extension.exchange import Exchange
    from servekit.frontend.pipelines.pipeline import Pipeline, Place
    from servekit.ipc.batches import SentItem

    #: status and headers
    Response = tuple[int, list[tuple[str, str]]]

__all__ = ["Flow", "Part", "Value"]

Content = bytes | memoryview


class Value(Struct, eq=False):
    """What the client sent, or a step gave."""

    content: Any  #: bytes, or a view of shared memory
    content_type: bytes
    uses: int  #: steps that will get it and have not yet
    release: Any = None  #: called when nobody looks at ``content`` any more
    response: Any = None  #: status and headers, where the service gave its own

    def use(self) -> None:
        """One step less needs it."""
        self.uses -= 1
        if not self.uses:
            self.drop()

    def drop(self) -> None:
        """Nobody needs it."""
        release, self.release = self.release, None
        if release is not None:
            release()


class Part(Struct, eq=False):
    """What a task of a flow is for; a ``Task`` calls it in place of its connection."""

    flow: Flow
    at: int  #: place in the pipeline
    element: int  #: of the list, if each is a task
    begun: float

    def take(
        self,
        task: Task,
        media_type: str,
        content: Content,
        release: Callable[[], None] | None,
        response: Response | None,
    ) -> None:
        """Take the output of *task*."""
        value = Value(content, media_type.encode(), 0, release, response)
        self.flow.take(self, task, value)

    def fail(self, error: ServekitError) -> None:
        """The task has no output, or no more of them."""
        self.flow.fail(error)

    def begin_stream(self) -> tuple[float, bytes]:
        """The outputs go out as they come; return when the request came, and what it took so far.

        That is a part of ``Server-Timing``.
        """
        return self.flow.begin_stream()

    def end_stream(self, task: Task, now: float) -> None:
        """All outputs of *task* are out."""
        self.flow.end_stream(task, now)


class Flow:
    """Stands in for a task at its exchange."""

    __slots__ = (
        "_arrived",
        "_exchange",
        "_gathered",
        "_headers",
        "_is_done",
        "_item",
        "_pipeline",
        "_request",
        "_tasks",
        "_timing",
        "_until",
        "_values",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        exchange: Exchange,
        item: SentItem,
        headers: dict[bytes, bytes],
        arrived: float,
        until: float,
    ) -> None:
        """Lead *item* through *pipeline*.

        :param headers: of its request, of which each stage sees those that it asked for.
        :param until: when the client wants to have all of a stream, ``monotonic``.
        """
        self._item = item
        self._pipeline = pipeline
        self._exchange = exchange
        self._headers = headers
        self._arrived = arrived
        self._until = until
        self._is_done = False
        self._values: list[Value | None] = [None] * len(pipeline.places)
        self._gathered: dict[int, list[Any]] = {}  #: outputs of the elements of a list, by place
        self._tasks: dict[Task, None] = {}  #: that have no answer yet
        self._timing: list[bytes] = []
        uses = sum(-1 in place.sources for place in pipeline.places)
        self._request = Value(item.body, item.content_type, uses)
        pipeline.hold(+1)
        if isinstance(slab := item.body, Slab):
            bodies = pipeline.bodies
            self._request.content = bodies.content(slab)
            self._request.release = lambda: bodies.free(slab)

    # ------------------------------------------------------------ what the connection asks

    @property
    def is_sent(self) -> bool:
        """No: what a worker has is no answer yet, so a client that ends is taken for gone."""
        return False

    @property
    def body_bytes(self) -> int:
        """Size of what the client sent."""
        return len(self._request.content)

    def cancel(self) -> None:
        """The client has gone: nobody needs to go on with it."""
        if not self._is_done:
            self._end()

    # ------------------------------------------------------------ from step to step

    def begin(self) -> None:
        """Start the steps that need nothing but the request."""
        for at in self._pipeline.first:
            self._start(at)

    def _start(self, at: int) -> None:
        """Start the step at *at*; all that it gets is there."""
        if self._is_done:
            return
        place = self._pipeline.places[at]
        sources = [self._source(source) for source in place.sources]
        if not all(map(place.takes, sources)):
            self.fail(ResultNotEncodable())
            return
        if place.is_each:
            self._start_each(at, place, sources[0])
        elif self._may_give_away(place):
            self._request.release = None
            self._put(at, place, self._item.body, self._request.content_type)
        else:
            self._send(at, place, *_input(place, sources))
        for value in dict.fromkeys(sources):
            value.use()

    def _start_each(self, at: int, place: Place, value: Value) -> None:
        parts, queue = values.split(value.content), place.batcher.queue
        if len(parts) > queue.capacity:
            self.fail(
                InputError(
                    f"{place.label}: {counted(len(parts), 'element')}, limit {queue.capacity}"
                )
            )
        elif len(parts) + len(queue) > queue.capacity:
            self.fail(
                QueueFull(retry_after_s=place.batcher.rate.seconds_for(len(queue), monotonic()))
            )
        elif parts:
            self._gathered[at] = [None] * len(parts)
            for element, part in enumerate(parts):
                self._send(at, place, [part], VALUE.encode(), element)
        else:
            self._give(at, Value(b"".join(values.as_values([])), VALUES.encode(), 0))

    def _send(
        self,
        at: int,
        place: Place,
        pieces: Sequence[Content],
        content_type: bytes,
        element: int = 0,
    ) -> None:
        if self._is_done:
            return
        body = place.batcher.bodies.lay(pieces, self._pipeline.large_body)
        self._put(at, place, body, content_type, element)

    def _may_give_away(self, place: Place) -> bool:
        """Whether the body of the request lies where *place* wants it, and nobody else does."""
        is_only = place.sources == [-1] and not place.names and self._request.uses == 1
        is_there = place.batcher.bodies is self._pipeline.bodies
        return is_only and is_there and isinstance(self._item.body, Slab)

    def _put(
        self, at: int, place: Place, body: bytes | Slab, content_type: bytes, element: int = 0
    ) -> None:
        now, sent = monotonic(), self._item
        item: SentItem = Item(
            body, content_type, place.accept or sent.accept, sent.request_id, sent.deadline
        )
        item.calls, item.protocol, item.identity = place.calls, sent.protocol, sent.identity
        task = make_task(place.batcher, self._exchange, item, self._headers, now, self._until)
        task.step = Part(self, at, element, now)
        self._tasks[task] = None
        pass_on(task)

    def take(self, part: Part, task: Task, value: Value) -> None:
        """Go on with the output of *task*.

        :raises ChannelClosed: it is none.
        """
        self._tasks.pop(task, None)
        if self._is_done:
            value.drop()
            return
        try:
            self._go_on(part, value)
        except ChannelClosed:
            value.drop()
            self.fail(WorkerLost())
            raise

    def _go_on(self, part: Part, value: Value) -> None:
        at, place = part.at, self._pipeline.places[part.at]
        gathered = self._gathered.get(at)
        if gathered is None:
            self._note(place, part.begun)
            self._give(at, value)
            return
        gathered[part.element] = value
        if value.content_type != VALUE.encode():
            self.fail(ResultNotEncodable())
        elif None not in gathered:
            self._note(place, part.begun)
            pieces = values.as_values([each.content for each in gathered])
            whole = Value(b"".join(pieces), VALUES.encode(), 0)
            for each in self._gathered.pop(at):
                each.drop()
            self._give(at, whole)

    def _give(self, at: int, value: Value) -> None:
        """Hand the output of the step at *at* to those that follow, or to the client."""
        place = self._pipeline.places[at]
        if at == len(self._values) - 1:
            self._answer(value)
            return
        value.uses = len(place.followers)
        self._values[at] = value
        # all looked at before any starts: what starts may give at once, and start others itself
        for follower in [each for each in place.followers if self._is_ready(each)]:
            self._start(follower)

    def _is_ready(self, at: int) -> bool:
        sources = self._pipeline.places[at].sources
        return all(source < 0 or self._values[source] is not None for source in sources)

    def _source(self, at: int) -> Value:
        value = self._request if at < 0 else self._values[at]
        assert value is not None
        return value

    # ------------------------------------------------------------ the end

    def _note(self, place: Place, begun: float) -> None:
        if not place.label:
            return
        self._timing.append(b"%b;dur=%.3f" % (place.label.encode(), (monotonic() - begun) * 1e3))

    def _answer(self, value: Value) -> None:
        media_type = media_types[value.content_type.decode("latin-1")]
        timing = b", ".join(self._timing)
        response = HttpResponse(200, value.content, media_type, self._item.request_id, timing)
        if value.response is not None:
            response.status, response.fields = value.response
            check_fields(response.status, response.fields)
        self._pipeline.count(response.status, monotonic() - self._arrived)
        response.release, value.release = value.release, None
        self._end()
        self._exchange.respond(response)

    def begin_stream(self) -> tuple[float, bytes]:
        """Return when the request came, and ``Server-Timing`` of all steps but the last one."""
        return self._arrived, b"".join(each + b", " for each in self._timing)

    def end_stream(self, task: Task, now: float) -> None:
        """The last step, *task*, gave its outputs to the client itself, and that is over."""
        self._tasks.pop(task, None)
        if not self._is_done:
            self._pipeline.count(200, now - self._arrived)
            self._end()

    def fail(self, error: ServekitError) -> None:
        """Answer with *error*, unless it is answered."""
        if not self._is_done:
            self._pipeline.count_failure(error.status)
            self._end()
            self._exchange.fail(error, self._item.request_id)

    def _end(self) -> None:
        """Let go of everything."""
        self._is_done = True
        self._pipeline.hold(-1)
        elements = [each for outputs in self._gathered.values() for each in outputs]
        for value in (self._request, *self._values, *elements):
            if value is not None:
                value.drop()
        if self._tasks:  # later: a queue may be in the midst of answering one of them
            self._pipeline.loop.run_callback(_cancel, list(self._tasks))


def _cancel(tasks: list[Task]) -> None:
    for task in tasks:
        task.cancel()


def _input(place: Place, sources: list[Value]) -> tuple[Sequence[Content], bytes]:
    """Return the pieces of the input of *place*, and their media type."""
    if not place.names:
        return [sources[0].content], sources[0].content_type
    contents = [
        values.as_list(source.content)
        if source.content_type == VALUES.encode()
        else [source.content]
        for source in sources
    ]
    return values.as_mapping(place.names, contents), VALUE.encode()
