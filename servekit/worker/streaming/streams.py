# SPDX-License-Identifier: Apache-2.0
"""The streams that a worker has under way: admitted, stepped in turns, written, let go."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import ResultNotEncodable
from servekit.ipc.batches import VALUE, Part
from servekit.ipc.stream_formats import STREAM_FORMATS, StreamFormat
from servekit.service.response import Response
from servekit.worker.codecs.json import codec as json
from servekit.worker.codecs.media_headers import parse_accept, remember
from servekit.worker.prediction.batch_result import EXPIRED, GONE, Failed
from servekit.worker.prediction.response_writer import Plan, Writer
from servekit.worker.prediction.unwritable import blamed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.ipc.batches import Answer, Open
    from servekit.service.base import Request
    from servekit.worker.prediction.batch_result import Answered
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.prediction.predictor import Predictor
    from servekit.worker.prediction.runs import Batch, Run
    from servekit.worker.streaming.stepping import Advance, Stepping
    from servekit.worker.transport.channel import FrontEndChannel

    #: ``Predictor.written``
    Write = Callable[[Plan, Any], tuple[str, bytes]]

__all__ = ["ActiveStreams", "Formats", "Stream"]

AS_JSON = Writer("application/json", json.encode, takes_any=True)
OUTPUT = Plan([AS_JSON], [AS_JSON])


class Formats(dict[bytes, StreamFormat | None]):
    """``Accept`` as received to how the outputs are written; ``None``: one answer at the end."""

    def __missing__(self, header: bytes) -> StreamFormat | None:
        named = [found for found in parse_accept(header) if found.is_concrete]
        best = max((found.quality for found in named), default=0.0)
        liked = {found.name for found in named if found.quality == best > 0}
        found = next((form for name, form in STREAM_FORMATS.items() if name in liked), None)
        remember(self, header, found)
        return found


class Stream:
    """One request, from the message that brought it to its end."""

    __slots__ = (
        *("_begun", "_kept", "_steps", "channel", "format", "item", "message", "plan"),
        *("request", "run", "slot"),
    )

    slot: Any
    request: Request
    plan: Plan  #: of the one answer, where there is no ``format``

    def __init__(
        self, message: Open, item: OpenItem, channel: FrontEndChannel, run: Run | None = None
    ) -> None:
        """Wait to be admitted.

        :param run: of services, the last of which is the one that streams.
        """
        self.message, self.item, self.channel, self.run = message, item, channel, run
        self.format: StreamFormat | None = None
        self._kept: list[Any] = []
        self._begun = 0.0
        self._steps: dict[str, float] = {}  #: that the front-end has not heard of

    def begin(self, steps: dict[str, float], *, is_led: bool) -> None:
        """The services before the last one are over, and took *steps*.

        :param is_led: they have something for the last one.
        """
        self._begun, self._steps = monotonic() if is_led else 0.0, steps

    @property
    def has_gone(self) -> bool:
        """Nobody waits for it any more."""
        cancelled = self.channel.shared.cancelled
        return cancelled is not None and cancelled.has(self.message.stream, self.message.place)

    def part(self, advance: Advance, write: Write) -> Part | None:
        """Return what one step brings for the client. Raises what the writing raises."""
        if self.format is None:
            _refuse_responses(advance.outputs)
            self._kept += advance.outputs
            return self._last(write) if advance.is_over else None
        if not (advance.outputs or advance.is_over):
            return None
        _refuse_responses(advance.outputs)
        texts = [write(OUTPUT, output)[1] for output in advance.outputs]
        body = b"".join([self.format.output % text for text in texts])
        end = ("", "", b"") if advance.is_over else None
        return self._part(self.format.media_type, body, len(texts), end)

    def _last(self, write: Write) -> Part:
        answered: Answered = ("", *write(self.plan, self._kept))
        (end,) = self.channel.shared.lay_out([answered])
        return self._part("", b"", len(self._kept), end)

    def failed(self, end: Answer) -> Part:
        """Return the end that an error is."""
        return self._part("", b"", 0, end)

    def _part(self, media_type: str, body: bytes, outputs: int, end: Answer | None) -> Part:
        steps, self._steps = self._steps, {}
        if end is not None and self._begun and self.run is not None:
            steps[self.run.last_name] = monotonic() - self._begun
        return Part(self.message.stream, media_type, body, outputs, end, steps=steps)


def _refuse_responses(outputs: Sequence[Any]) -> None:
    if any(isinstance(output, Response) for output in outputs):
        raise ResultNotEncodable("output: a Response has no place in a stream")


class ActiveStreams:
    """All of one worker. ``turn`` is one step of each; in between new ones may come."""

    def __init__(self, stepping: Stepping, predictor: Predictor, most: int) -> None:
        """Have up to *most* under way; others wait for their place."""
        self._stepping, self._predictor, self._most = stepping, predictor, most
        self._formats = Formats()
        self._waiting: deque[Stream] = deque()
        self._open: list[Stream] = []
        self.is_leaving = False  #: a service asked the process to exit

    @property
    def is_busy(self) -> bool:
        """There is something to do."""
        return bool(self._open or self._waiting)

    def put(self, stream: Stream) -> None:
        """Admit *stream* as soon as there is a place."""
        self._waiting.append(stream)

    def turn(self) -> list[tuple[Stream, Part]]:
        """Take one step with all, and return what it brings. Blocks as long as the service does."""
        found = [(stream, stream.failed(GONE)) for stream in self._drop(lambda each: each.has_gone)]
        while self._waiting and len(self._open) < self._most:
            stream = self._waiting.popleft()
            part = self._admit(stream)
            if part is None:
                self._open.append(stream)
            else:
                found.append((stream, part))
        return found + self._step()

    def leave(self, channel: FrontEndChannel) -> None:
        """The front-end of *channel* is gone."""
        self._drop(lambda stream: stream.channel is channel)

    def close(self) -> None:
        """Let all go."""
        self._drop(lambda _stream: True)

    def _admit(self, stream: Stream) -> Part | None:
        """Give *stream* its slot, or return the refusal."""
        if stream.item[-1] <= monotonic():
            return stream.failed(EXPIRED)
        try:
            value = self._read(stream)
            if type(value) is Failed:
                return stream.failed(value.answer)
            stream.slot = self._stepping.admit(value, stream.request)
        except BaseException as error:  # noqa: BLE001 - an author's admit may raise anything
            return self._failed(error, [stream])[0][1]
        finally:
            self._stepping.current.end()
        return None

    def _read(self, stream: Stream) -> Any:
        """Return the input of *stream*, or why there is none; have its ``request`` made."""
        predictor, current = self._predictor, self._stepping.current
        body, content_type, accept, request_id, deadline = stream.item
        stream.format = self._formats[accept]
        if stream.format is None:
            stream.plan = predictor.plans[accept]
        else:
            deadline = stream.message.until
        place, number = stream.message.place, stream.message.stream
        item = (body, content_type, VALUE.encode(), request_id, deadline)
        batch = number, stream.channel.shared.cancelled, {place: stream.message.headers}
        if stream.run is not None:
            return self._lead(stream, stream.run, item, batch)
        current.begin({place: item}, *batch)
        stream.request = current.request(place)
        return predictor.single(predictor.read(content_type, body, place))

    def _lead(self, stream: Stream, run: Run, item: OpenItem, batch: Batch) -> Any:
        """Return what the services before the last one make of *item*, as ``_read`` does."""
        place, predictor = stream.message.place, self._predictor
        answers = list[Any]([None]) * (place + 1)
        led = run.lead({place: item}, [(place, item)], batch, answers, predictor.plans)
        self.is_leaving |= run.is_leaving
        stream.begin(led.steps, is_led=answers[place] is None)
        if answers[place] is not None:
            return Failed(answers[place])
        stream.request = self._stepping.current.request(place)
        return predictor.single(led.inputs[0])

    def _step(self) -> list[tuple[Stream, Part]]:
        found: list[tuple[Stream, Part]] = []
        failed: dict[int, tuple[BaseException, list[Stream]]] = {}
        open_ = list(self._open)
        for stream, advance in zip(open_, self._stepping.step(open_), strict=True):
            error = advance.error
            try:
                part = None if error else stream.part(advance, self._predictor.written)
            except BaseException as raised:  # noqa: BLE001 - a plugin's codec may raise anything
                part, error = None, self._blamed(raised, stream)
            if part is not None:
                found.append((stream, part))
            if error is not None:  # several have one when ``step`` itself raised it
                failed.setdefault(id(error), (error, []))[1].append(stream)
            if error is not None or advance.is_over:
                self._end(stream)
        return found + [each for group in failed.values() for each in self._failed(*group)]

    def _blamed(self, error: BaseException, stream: Stream) -> BaseException:
        plan = OUTPUT if stream.format else stream.plan
        has_preprocess = self._predictor.has_preprocess
        return blamed(error, plan, lambda: stream.request, has_preprocess=has_preprocess)

    def _failed(self, error: BaseException, streams: list[Stream]) -> list[tuple[Stream, Part]]:
        ids = [stream.item[3] for stream in streams]
        end = self._predictor.failed("stream", error, ids)
        return [(stream, stream.failed(end)) for stream in streams]

    def _end(self, stream: Stream) -> None:
        self._open.remove(stream)
        self._stepping.evict(stream.slot)

    def _drop(self, is_over: Callable[[Stream], bool]) -> list[Stream]:
        """Let those go of which *is_over* is true, and return them."""
        over = [stream for stream in self._open if is_over(stream)]
        for stream in over:
            self._end(stream)
        waiting = [stream for stream in self._waiting if is_over(stream)]
        if waiting:
            self._waiting = deque(each for each in self._waiting if each not in waiting)
        return over + waiting
