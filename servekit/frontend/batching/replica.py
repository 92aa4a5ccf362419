# SPDX-License-Identifier: Apache-2.0
"""A replica as a front-end sees it: one channel, one batch at a time, or slots of streams.

The channel follows the worker that fills the replica: it opens when the routing table
says that a new generation serves, and closes when the worker goes.
"""

from __future__ import annotations

import contextlib
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import DeadlineExceeded, WorkerLost
from servekit.frontend.batching.channel import Link
from servekit.frontend.batching.leases import Loans
from servekit.frontend.batching.replies import answer_batch, fail_task
from servekit.frontend.batching.retry import settle
from servekit.frontend.batching.stream_slots import Slots
from servekit.ipc.batches import Freed, Hello, Parts, Ping, Pong, Predict, Reply
from servekit.ipc.channel import ChannelClosed, FrameTooLarge
from servekit.ipc.control import Hung, Lost

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.batching.samples import BatchSamples
    from servekit.frontend.batching.task import Task
    from servekit.ipc.batches import Part
    from servekit.ipc.table import ReplicaRow

__all__ = ["PING_S", "Replica"]

PING_S = 2.0  #: an idle replica is asked for a sign of life after so long a silence
LOST_S = 1.0  #: a worker that closed its channel and lives on is given up after so long


class Replica:
    """One channel to one worker; belongs to its ``Batcher``."""

    def __init__(
        self,
        batcher: Batcher,
        loop: Any,
        report: Callable[[Hung | Lost], None],
        samples: BatchSamples | None = None,
    ) -> None:
        """Stay closed until ``update`` names a serving generation.

        :param report: tells the supervisor that the worker hangs, or is gone with a batch.
        :param samples: notes batches that are answered, if a plugin wants to know of them.
        """
        self._batcher = batcher
        self._loop = loop
        self._report = report
        self._samples = samples
        self._link: Link | None = None
        self._generation = 0  #: the last generation a channel was opened for
        self._is_greeted = False
        self._is_given_up = False
        self._is_retired = False
        self.batch: list[Task] | None = None  #: with slots, all that have one
        self._slots: Slots | None = None  #: of a worker that streams
        self._batch_id = 0
        self._sent_at = 0.0
        self._heard_at = 0.0
        self._pinged_at = 0.0
        self._ping_failure = ""
        self._loans = Loans(batcher.bodies)

    # ------------------------------------------------------------ the channel's life

    def update(self, row: ReplicaRow) -> None:
        """Open the channel when a generation serves that we have not seen."""
        self.row = row
        if self._link is not None:
            return
        if row.generation > self._generation or row.state != "serving":
            self._loans.end_all()
        if row.generation > self._generation and row.state == "serving":
            self._open(row)

    @property
    def is_live(self) -> bool:
        """The worker answered recently, or has a batch within its time."""
        silence = monotonic() - self._heard_at
        return (
            self._is_greeted
            and not self._is_given_up
            and not self._ping_failure
            and (self.batch is not None or silence < self._batcher.silence_s)
        )

    @property
    def measures(self) -> memoryview | None:
        """The metrics of the service inside, if it has some."""
        return self._link.measures if self._link is not None else None

    def _open(self, row: ReplicaRow) -> None:
        batcher = self._batcher
        with contextlib.suppress(OSError):  # the listener's backlog is full: we try again
            self._link = Link(
                self._loop,
                row.address,
                batcher.bodies.arena,
                batcher.row.max_batch_size,
                self._on_message,
                self._on_gone,
            )
            self._generation = row.generation
            self._is_greeted = self._is_given_up = False
            self._ping_failure = ""
            self._loans.begin(self._link)
            self._heard_at = monotonic()

    def close(self) -> None:
        """Close the channel; what it holds is lost."""
        if self._link is not None:
            self._link.close()
            self._on_lost()

    def trim(self) -> None:
        """Give back what we have mapped of answers; what is still needed is mapped anew."""
        if self._link is not None:
            self._link.trim()

    def retire(self) -> None:
        """Take no more batches, and close the channel when the one inside is answered."""
        self._is_retired = True
        self._leave_idle()
        if self.batch is None:
            self.close()
            self._loans.end_all()

    def _on_gone(self) -> None:
        if self.batch:
            self._report_lost(self.batch)
        self._on_lost()

    def _on_lost(self) -> None:
        self._link, self._is_greeted = None, False
        self._heard_at = monotonic()
        self._loans.close()
        self._leave_idle()
        batch, self.batch = self.batch, None
        if self._slots is not None:
            slots, self._slots = self._slots, None
            slots.lose(WorkerLost())
        elif batch:
            self._loans.keep(settle(self._batcher, batch))
            self._batcher.dispatch()

    def _report_lost(self, batch: list[Task]) -> None:
        ids = [task.request_id for task in batch]
        self._report(Lost(self._batcher.row.name, self.row.index, self._generation, ids))

    # ------------------------------------------------------------ one batch out, its answers back

    def send(self, batch: list[Task], now: float) -> None:
        """Hand *batch* to the worker. Only an idle replica is sent a batch."""
        if self._slots is not None:
            self._begin_streams(self._slots, batch, now)
            return
        assert self._link is not None
        self.batch = batch
        self._batch_id += 1
        self._sent_at = now
        items = [task.item for task in batch]
        self._loans.lend(items)
        try:
            has_protocols = self._batcher.has_protocols
            self._link.send(Predict(self._batch_id, items, self._loans.returned, has_protocols))
            self._loans.returned = []
        except FrameTooLarge:
            self.close()

    def cancel(self, task: Task) -> None:
        """Let the worker know that nobody waits for *task* any more, if it has it."""
        if self._slots is not None:
            self._slots.cancel(task)
        elif self.batch and task in self.batch and self._link is not None:
            self._link.cancelled.mark(self._batch_id, self.batch.index(task))

    def _begin_streams(self, slots: Slots, batch: list[Task], now: float) -> None:
        """Hand over as many of *batch* as there is room for."""
        if self.batch is None:
            self._sent_at = now
        waiting = deque(batch)
        while waiting and slots.has_room and self._slots is slots:
            slots.put(waiting.popleft(), now)
        self._batcher.queue.put_back(list(waiting))
        if self._slots is slots:
            self.batch = list(slots.tasks)
            if slots.has_room:
                self._batcher.idle.insert(0, self)  # the other replicas come first

    def _on_parts(self, parts: list[Part]) -> None:
        slots = self._slots
        if slots is None:
            raise ChannelClosed("outputs of no stream: the channel is in doubt")
        self._sent_at = self._heard_at  # a turn is over
        had_room = slots.has_room
        slots.take(parts, self._heard_at)
        self.batch = list(slots.tasks) or None
        if self._is_retired or (slots.has_room and not had_room):
            self._become_idle()

    def _on_message(self, message: Reply | Hello | Pong | Freed | Parts) -> None:
        self._heard_at = monotonic()
        if type(message) is Reply:
            self._on_reply(message)
        elif isinstance(message, Parts):
            self._on_parts(message.parts)
        elif isinstance(message, Hello):
            self._on_hello(message)
        elif isinstance(message, Freed):
            self._loans.end(message.offsets)
        else:
            assert isinstance(message, Pong)
            self._ping_failure = message.reason

    def _on_hello(self, hello: Hello) -> None:
        if self._is_greeted:
            raise ChannelClosed("a second greeting: the channel is in doubt")
        self._generation = max(self._generation, hello.generation)
        self._is_greeted = True
        if hello.slots and self._link is not None:
            self._slots = Slots(hello.slots, self._link, self._loans)
        self._become_idle()
        self._batcher.hand_over()

    def _become_idle(self) -> None:
        if self._is_retired:
            self.retire()
            return
        self._batcher.idle.append(self)
        self._batcher.dispatch()

    def _leave_idle(self) -> None:
        with contextlib.suppress(ValueError):
            self._batcher.idle.remove(self)

    def _on_reply(self, reply: Reply) -> None:
        batch, link = self.batch, self._link
        if batch is None or reply.batch != self._batch_id or len(reply.answers) != len(batch):
            raise ChannelClosed("an answer to another batch: the channel is in doubt")
        assert link is not None
        self.batch = None
        sent_at, heard_at = self._sent_at, self._heard_at
        self._loans.end_all_but(reply.held)
        if not reply.is_last:
            self._become_idle()  # the worker gets its next batch before we write the answers
        try:
            answer_batch(
                batch,
                reply,
                sent_at,
                heard_at,
                lambda slab: self._loans.borrow(link, slab),
            )
        except ChannelClosed:
            self._report_lost(batch)
            for task in batch:
                fail_task(task, WorkerLost())
            raise
        if self._samples is not None:
            self._samples.note(batch, reply, self.row.index, sent_at, heard_at)

    # ------------------------------------------------------------ time

    def expire(self, now: float) -> None:
        """Answer 504 to members past their deadline; give up a worker that hangs."""
        for task in self.batch or ():
            if task.deadline <= now:
                fail_task(task, DeadlineExceeded())
        if self._slots is not None:
            self._slots.look(now)
        if self._link is None:
            self.update(self.row)  # the listener's backlog may have been full
        if not self._is_given_up:
            self._check_life(now)

    def _check_life(self, now: float) -> None:
        silence_s = now - self._heard_at
        if self._link is None:
            if self._is_stranded and silence_s > LOST_S:
                self._give_up("closed its channel")
        elif self.batch is not None:
            is_streaming = self._slots is not None  # then it says something after every turn
            batcher = self._batcher
            limit_s = batcher.predict_timeout_s if is_streaming else batcher.hang_after_s
            if now - self._sent_at > limit_s:
                what = "a step" if is_streaming else "predict"
                self._give_up(f"{what} took longer than {batcher.predict_timeout_s:g} s")
        elif silence_s > self._batcher.silence_s:
            self._give_up(f"did not answer for {self._batcher.silence_s:g} s")
        elif self._is_greeted and not self._link.is_writing:
            self._say_while_idle(now)

    @property
    def _is_stranded(self) -> bool:
        """The worker is said to serve, and we have no channel to it."""
        return self.row.state == "serving" and self.row.generation == self._generation

    def _say_while_idle(self, now: float) -> None:
        assert self._link is not None
        if now - max(self._heard_at, self._pinged_at) > PING_S:
            self._pinged_at = now
            self._link.send(Ping())
        elif self._loans.returned:
            offsets, self._loans.returned = self._loans.returned, []
            self._link.send(Freed(offsets))

    def _give_up(self, reason: str) -> None:
        self._is_given_up = True
        self._leave_idle()
        self._report(Hung(self._batcher.row.name, self.row.index, self._generation, reason))
