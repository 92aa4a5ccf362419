# SPDX-License-Identifier: Apache-2.0
"""All the streams of a worker: admitted, stepped in turns, and ended."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.service.spans import UNTRACED, begin_stage
from servekit.worker.prediction.batch_result import EXPIRED, GONE, Failed
from servekit.worker.prediction.current_batch import NO_BATCH
from servekit.worker.streaming.opening import StreamOpener
from servekit.worker.streaming.stream import Siblings, Stream, StreamInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.ipc.batches import Part
    from servekit.worker.envelopes.table import EnvelopeTable
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.prediction.runs import Batch, Run
    from servekit.worker.streaming.stepping import Advance, Stepping
    from servekit.worker.transport.channel import FrontEndChannel

__all__ = ["ActiveStreams"]


class ActiveStreams:
    """All streams of one worker. ``turn`` takes one step with each; new ones come in between."""

    def __init__(self, envelopes: EnvelopeTable, most: int, max_answer_bytes: int) -> None:
        """Step with up to *most* streams; the others wait."""
        self._most, self._opener = most, StreamOpener(envelopes, max_answer_bytes)
        self._waiting: deque[Stream] = deque()
        self._open: list[Stream] = []
        self.is_leaving = False  #: a service asked the process to exit

    @property
    def is_busy(self) -> bool:
        """Whether there are any streams."""
        return bool(self._open or self._waiting)

    def put(self, stream: Stream) -> None:
        """Admit *stream* as soon as there is room."""
        self._waiting.append(stream)

    def turn(self) -> list[tuple[Stream, Part]]:
        """Take one step with every stream; return what it brings. Blocks as the service does."""
        found = [(stream, stream.failed(GONE)) for stream in self._drop(lambda each: each.has_gone)]
        while self._waiting and len(self._open) < self._most:
            stream = self._waiting.popleft()
            part = self._admit(stream)
            if part is not None:
                found.append((stream, part))
        return self._ended_once(found + self._step())

    def _ended_once(self, found: list[tuple[Stream, Part]]) -> list[tuple[Stream, Part]]:
        """Return *found* with nothing after the end of a request, whose other inputs end too."""
        ended: set[Siblings | None] = set()
        kept = []
        for stream, part in found:
            siblings = stream.siblings
            if siblings in ended:
                continue
            if siblings is not None and part.end is not None:
                ended.add(siblings)
                self._drop(lambda each: each.siblings in ended)
            kept.append((stream, part))
        return kept

    def leave(self, channel: FrontEndChannel) -> None:
        """End the streams of *channel*, whose front-end is gone."""
        self._drop(lambda stream: stream.channel is channel)

    def close(self) -> None:
        """End all streams."""
        self._drop(lambda _stream: True)

    def _admit(self, stream: Stream) -> Part | None:
        """Give *stream* its slot, or return its refusal. Several inputs wait for slots again."""
        if stream.item.deadline <= monotonic():
            return stream.failed(EXPIRED)
        try:
            with UNTRACED if stream.recorder is None else stream.recorder.active():
                if stream.input is None:
                    items = self._opener.items_of(stream)
                    if len(items) != 1:
                        self._waiting.extend(Siblings(stream, items).streams)
                        return None if items else stream.whole(())
                    stream.input = StreamInput(items[0])
                value = self._read(stream, stream.input.item)
                if type(value) is Failed:
                    return stream.failed(value.answer)
                if stream.run is not None:
                    begin_stage(stream.run.last_name)
                stream.slot = stream.stepping.admit(value, stream.request)
        except BaseException as error:  # noqa: BLE001 - an author's admit may raise anything
            return self._failed(error, [stream])[0][1]
        finally:
            stream.stepping.current.batch = NO_BATCH
        self._open.append(stream)
        return None

    def _read(self, stream: Stream, item: OpenItem) -> Any:
        """Return the input of *stream*, or a ``Failed``; set its ``request``."""
        predictor, current = stream.predictor, stream.stepping.current
        place = stream.message.place
        batch = stream.message.stream, stream.channel.shared.cancelled
        if stream.run is not None:
            return self._lead(stream, stream.run, item, batch)
        current.batch = {place: item}, *batch
        stream.request = current.request(place)
        return predictor.single(predictor.read(item.content_type, item.body, place))

    def _lead(self, stream: Stream, run: Run, item: OpenItem, batch: Batch) -> Any:
        """Return what the services before the last one make of *item*, as ``_read`` does."""
        place, predictor = stream.message.place, stream.predictor
        answers = list[Any]([None]) * (place + 1)
        led = run.lead({place: item}, [(place, item)], batch, answers, predictor.plans)
        self.is_leaving |= run.is_leaving
        stream.begin(led.steps, is_led=answers[place] is None)
        if answers[place] is not None:
            return Failed(answers[place])
        stream.request = stream.stepping.current.request(place)
        return predictor.single(led.inputs[0])

    def _step(self) -> list[tuple[Stream, Part]]:
        found: list[tuple[Stream, Part]] = []
        failed: dict[int, tuple[BaseException, list[Stream]]] = {}
        for stream, advance in self._advance():
            error = advance.error
            try:
                part = None if error else stream.part(advance, self._opener.write)
            except BaseException as raised:  # noqa: BLE001 - a plugin's codec may raise anything
                part, error = None, self._opener.blamed(raised, stream)
            if part is not None:
                found.append((stream, part))
            if error is not None:  # several share it when ``step`` itself raised it
                failed.setdefault(id(error), (error, []))[1].append(stream)
            if error is not None or advance.is_over or (part is not None and part.end is not None):
                self._end(stream)
        return found + [each for group in failed.values() for each in self._failed(*group)]

    def _advance(self) -> list[tuple[Stream, Advance]]:
        """Take one step with every stream, all those of one method together."""
        members: dict[Stepping, list[Stream]] = {}
        for stream in self._open:
            members.setdefault(stream.stepping, []).append(stream)
        found: list[tuple[Stream, Advance]] = []
        for stepping, streams in members.items():
            found += zip(streams, stepping.step(streams), strict=True)
        return found

    def _failed(self, error: BaseException, streams: list[Stream]) -> list[tuple[Stream, Part]]:
        ids = [stream.item.request_id for stream in streams]
        predictor = streams[0].predictor  # an error of several is of one step
        end = predictor.failed("stream", error, ids)
        self.is_leaving |= predictor.is_leaving
        return [(stream, stream.failed(end)) for stream in streams]

    def _end(self, stream: Stream) -> None:
        self._open.remove(stream)
        stream.stepping.evict(stream.slot)

    def _drop(self, is_over: Callable[[Stream], bool]) -> list[Stream]:
        """End the streams of which *is_over* is true, and return them."""
        over = [stream for stream in self._open if is_over(stream)]
        for stream in over:
            self._end(stream)
        waiting = [stream for stream in self._waiting if is_over(stream)]
        if waiting:
            self._waiting = deque(each for each in self._waiting if each not in waiting)
        return over + waiting
