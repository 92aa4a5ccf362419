# SPDX-License-Identifier: Apache-2.0
"""The requests that a worker has at a time, each in a slot until it ends."""

from __future__ import annotations

import logging
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import DeadlineExceeded, WorkerLost
from servekit.frontend.batching.batch_slot import BatchAnswers
from servekit.frontend.batching.liveness import overtime
from servekit.frontend.batching.stream import StreamedResponse
from servekit.ipc.batches import ALIVE_S, Open, Parts, SlotsReply
from servekit.ipc.channel import ChannelClosed, FrameTooLarge

if TYPE_CHECKING:
    from servekit.frontend.batching.channel import Channel
    from servekit.frontend.batching.environment import SlotOwner
    from servekit.frontend.batching.liveness import TimeLimits
    from servekit.frontend.batching.queue import BatchFeed
    from servekit.frontend.batching.samples import BatchSamples
    from servekit.frontend.batching.task import Task
    from servekit.frontend.batching.tracer import SlotTracer
    from servekit.ipc.batches import Hello, Part, ReplyMessage

__all__ = ["StreamSlots"]

log = logging.getLogger("servekit.frontend")


class StreamSlots:
    """Sends tasks over one channel, as many at a time as the worker has slots."""

    def __init__(
        self,
        replica: SlotOwner,
        feed: BatchFeed,
        channel: Channel,
        hello: Hello,
        samples: BatchSamples | None = None,
        tracer: SlotTracer | None = None,
    ) -> None:
        """Send tasks of *feed*, which *replica* adds this to. All slots of *hello* are free."""
        self._tracer = tracer
        self._replica, self._feed, self._channel = replica, feed, channel
        self._leases = replica.leases
        self._answers = BatchAnswers(replica, channel, samples, tracer)
        self._free = list(range(hello.slots))
        self._is_async = hello.is_async
        self._opened = 0
        self._streams: dict[int, tuple[StreamedResponse, int]] = {}  #: with their places
        self._numbers: dict[Task, int] = {}  #: of the streams of tasks
        self._cancelled_at: dict[int, float] = {}  #: by number of a stream, oldest first
        self._is_offered = True  #: the feed knows that a slot is free
        self._is_leaving = False  #: the worker exits, and takes no more tasks
        self.sent_at = 0.0  #: ``monotonic``: when the turn began that the worker is in

    @property
    def tasks(self) -> list[Task]:
        """Those that the worker has."""
        return list(self._numbers)

    def send(self, tasks: list[Task], now: float) -> list[Task]:
        """Send as many of *tasks* as there are free slots, and return the others."""
        self._is_offered = False
        if not self._numbers:
            self.sent_at = now
        rest = deque(tasks)
        try:
            while rest and self._free:
                self._open(rest.popleft(), now)
        except FrameTooLarge:
            self._replica.close()
            return list(rest)
        if self._free:
            self._is_offered = True
            self._feed.add_last(self)
        return list(rest)

    def _open(self, task: Task, now: float) -> None:
        self._opened += 1
        place, returned = self._free.pop(), self._leases.lend([task.item])
        response = StreamedResponse(task, now, is_stream=not self._is_async)
        self._streams[self._opened] = (response, place)
        self._numbers[task] = self._opened
        self._channel.send(Open(self._opened, place, task.item, task.until, returned))

    def on_message(self, message: ReplyMessage) -> None:
        """Send on the outputs of one turn, or answer requests that were predicted as one batch.

        :raises ChannelClosed: the message is malformed, or for a stream that there is not.
        """
        if not isinstance(message, Parts | SlotsReply):
            self._replica.on_message(message)
            return
        self.sent_at = self._replica.life.heard_at = now = monotonic()
        if isinstance(message, Parts):
            self._take(message.parts, now)
            if message.taken is not None:
                self._leave(message.taken)
        else:
            self._is_leaving |= message.is_last
            self._answer(message, now)
        if self._replica.is_retired:
            self._replica.retire()
        elif self._is_leaving:
            self._feed.remove(self)
        elif self._free and not self._is_offered:  # the end of a stream may have sent tasks here
            self._is_offered = True
            self._feed.add(self)

    def _take(self, parts: list[Part], now: float) -> None:
        for part in parts:
            if part.stream not in self._streams:
                raise ChannelClosed("malformed answer from worker: an output of no stream")
            response = self._streams[part.stream][0]
            try:
                response.write(part, now)
            except ChannelClosed:
                raise
            except Exception:  # the other clients get their parts
                log.exception("request %s: its outputs cannot be sent", response.task.request_id)
                response.break_off()
            if part.end is not None:
                self._end(part, part.stream, now)

    def _answer(self, reply: SlotsReply, now: float) -> None:
        numbers = dict.fromkeys(reply.streams)
        responses = [self._streams[each][0] for each in numbers if each in self._streams]
        is_whole = 0 < len(responses) == len(reply.streams) == len(reply.answers)
        if not is_whole or any(each.has_begun for each in responses):
            raise ChannelClosed("malformed answer from worker: it is for other streams")
        for number in numbers:
            self._close(number).forget(is_stream=False)
        sent_at = max(each.sent_at for each in responses)
        self._answers.answer([each.task for each in responses], reply, sent_at, now)

    def _leave(self, taken: int) -> None:
        """The worker exits: other workers get the tasks after stream *taken*."""
        self._is_leaving = True
        self._feed.remove(self)
        untaken = [self._close(number) for number in list(self._streams) if number > taken]
        for response in untaken:
            response.forget(is_stream=False)
        if untaken:
            self._replica.give_back([response.task for response in untaken])

    def _close(self, number: int) -> StreamedResponse:
        """Return the response of stream *number*, which is over: its place is free."""
        response, place = self._streams.pop(number)
        del self._numbers[response.task]
        self._cancelled_at.pop(number, None)
        self._free.append(place)
        return response

    def _end(self, last: Part, number: int, now: float) -> None:
        response = self._close(number)
        self._note(response, number, last)
        try:
            response.end(last, now, self._answers.lend)
        except ChannelClosed:
            raise
        except Exception:  # see above
            log.exception("request %s: its end cannot be sent", response.task.request_id)
            response.break_off()

    def _note(self, response: StreamedResponse, number: int, last: Part | None = None) -> None:
        """Note in the trace of its request how stream *number* ends; ``None``: it is lost."""
        if self._tracer is not None:
            attributes = response.described(is_answered=last is not None)
            self._tracer.note_stream(response.task, number, response.sent_at, attributes, last)

    def cancel(self, task: Task) -> None:
        """Tell the worker that the client of *task* has disconnected, if it has the task."""
        number = self._numbers.get(task)
        if number is not None:
            self._channel.cancelled.mark(number, self._streams[number][1])
            self._cancelled_at.setdefault(number, monotonic())

    def complaint(self, now: float, limits: TimeLimits) -> str:
        """Return what the worker does wrong; "" if nothing.

        It says something every ``ALIVE_S``, unless its event loop is blocked, or a step or a batch
        takes long, perhaps of another front-end. Coroutines may also ignore their cancellation.
        """
        silent_s, limit_s = now - self.sent_at, limits.step_s + ALIVE_S
        if not self._is_async:
            return overtime("a step", silent_s, limit_s, limits)
        ending_s = now - next(iter(self._cancelled_at.values()), now)
        blocked = overtime("one step of its event loop", silent_s, limit_s, limits)
        return blocked or overtime("the end of a cancelled request", ending_s, limit_s, limits)

    def sweep(self, now: float) -> None:
        """Answer 504 to tasks past their deadline, and keep the connections of streams alive."""
        for number, (response, _) in list(self._streams.items()):
            task = response.task
            if task.deadline <= now and not task.is_done:
                self._note(response, number)
                task.fail(DeadlineExceeded())
            if task.is_done:
                self.cancel(task)
            else:
                response.keep_alive(now)

    def lose(self) -> list[Task]:
        """The worker is lost: end its streams. None of them can be tried again."""
        streams, self._streams = self._streams, {}
        self._numbers, self._free, self._cancelled_at = {}, [], {}
        for number, (response, _) in streams.items():
            response.forget()
            self._note(response, number)
            response.task.fail(WorkerLost())
        return []
