# SPDX-License-Identifier: Apache-2.0
"""A replica as a front-end sees it: the channel to the worker that fills it.

The channel opens when the routing table says that a new generation serves, and closes when the
worker ends. The worker holds one batch at a time, or as many streams as it has slots: once it has
greeted, its slots take tasks from the batcher and messages from the channel.
"""

from __future__ import annotations

import contextlib
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from servekit.frontend.batching.batch_slot import BatchSlot
from servekit.frontend.batching.call_port import CallPort
from servekit.frontend.batching.channel import Channel
from servekit.frontend.batching.held import held_requests
from servekit.frontend.batching.leases import Leases
from servekit.frontend.batching.liveness import Liveness
from servekit.frontend.batching.stream_slots import StreamSlots
from servekit.frontend.batching.tracer import SlotTracer
from servekit.ipc.batches import Freed, Hello, Ping, Pong
from servekit.ipc.channel import ChannelClosed
from servekit.ipc.control import Hung, Lost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.frontend.batching.environment import BatchingEnvironment, ReplicaOwner
    from servekit.frontend.batching.task import Task
    from servekit.ipc.batches import ReplyMessage
    from servekit.ipc.table import ReplicaRow

__all__ = ["ReplicaProxy"]


class ReplicaProxy:
    """One channel to one worker at a time."""

    row: ReplicaRow

    def __init__(self, owner: ReplicaOwner, environment: BatchingEnvironment) -> None:
        """Stay closed until ``update`` names a serving generation."""
        self._owner, self._environment = owner, environment
        self.leases = Leases(owner.bodies)
        self.channel: Channel | None = None  #: while it is open
        self._slots: BatchSlot | StreamSlots | None = None  #: once the worker has greeted
        self._calls: CallPort | None = None  #: if the service calls other models
        self._generation = 0  #: the last generation that a channel was opened for
        self.life = Liveness(0.0)  #: of the worker
        self.is_retired = False  #: it takes no more tasks

    # ------------------------------------------------------------ the life of the channel

    def update(self, row: ReplicaRow) -> None:
        """Open the channel when a generation serves that had none yet."""
        self.row = row
        if self.channel is not None:
            return
        is_new = row.generation > self._generation
        if is_new or not row.is_serving:
            self.leases.end_all()
        if not is_new or not row.is_serving:
            return
        traces = self._environment.traces
        with contextlib.suppress(OSError):  # the listener's backlog is full: ``sweep`` tries again
            self.channel = Channel(
                self._environment.loop,
                row.address,
                self._owner.bodies.arena,
                max(self._owner.row.max_batch_size, self._owner.row.max_concurrency),
                self.on_message,
                self._on_gone,
                busy_poll_s=self._environment.busy_poll_s,
                is_sampling=traces is not None and traces.sampler is not None,
            )
            self._generation = row.generation
            self.life = Liveness(monotonic())
            self.leases.begin(self.channel)

    def close(self) -> None:
        """Close the channel; the tasks of the worker are lost."""
        if self.channel is not None:
            self.channel.close()
            self._on_lost()

    def retire(self) -> None:
        """Take no more tasks, and close the channel when those in the worker are answered."""
        self.is_retired = True
        self._take_no_more()
        if not self.tasks:
            self.close()
            self.leases.end_all()

    def _take_no_more(self) -> None:
        if self._slots is not None:
            self._owner.feed.remove(self._slots)

    def _on_gone(self) -> None:
        if self.tasks:
            self.report_lost(self.tasks)
        self._on_lost()

    def _on_lost(self) -> None:
        self.channel = None
        if self._calls is not None:
            self._calls.close()
        self.life.heard_at = monotonic()
        self.leases.close()
        self._take_no_more()
        slots, self._slots = self._slots, None
        batch = slots.lose() if slots is not None else []
        if batch:
            self.leases.move(self._owner.on_lost(batch))
            self._owner.feed.dispatch()

    def give_back(self, tasks: list[Task]) -> None:
        """Let other workers have *tasks*, which this one has not taken and never will."""
        self.leases.move(self._owner.on_untaken(tasks))
        self._owner.feed.dispatch()

    def report_lost(self, batch: Sequence[Task]) -> None:
        """Report the worker, which was lost with *batch*."""
        requests = held_requests(batch, self._environment.keep_bodies)
        name, index = self._owner.row.name, self.row.index
        self._environment.report(Lost(name, index, self._generation, requests))

    # ------------------------------------------------------------ tasks

    @property
    def tasks(self) -> Sequence[Task]:
        """Those that the worker has."""
        return self._slots.tasks if self._slots is not None else ()

    def cancel(self, task: Task) -> None:
        """Tell the worker that the client of *task* has disconnected, if it has the task."""
        if self._slots is not None:
            self._slots.cancel(task)

    def on_message(self, message: ReplyMessage) -> None:
        """Handle a message that answers no task."""
        self.life.heard_at = monotonic()
        if isinstance(message, Hello):
            self._on_hello(message)
        elif isinstance(message, Freed):
            self.leases.end(message.offsets)
        elif isinstance(message, Pong):
            self.life.failure = message.reason
        else:
            raise ChannelClosed("malformed answer from worker: it was not asked for that")

    def _on_hello(self, hello: Hello) -> None:
        channel, owner = self.channel, self._owner
        if self._slots is not None or channel is None:
            raise ChannelClosed("malformed answer from worker: a second greeting")
        self._generation = max(self._generation, hello.generation)
        sock, channel.call_socket = channel.call_socket, None
        if sock is not None:
            begin = partial(self._environment.begin_call, owner.row)
            self._calls = CallPort(self._environment.loop, sock, begin)
        tracer = SlotTracer(owner.tracer, owner.row, self.row) if owner.tracer else None
        samples = self._environment.samples
        if hello.slots:
            self._slots = StreamSlots(self, owner.feed, channel, hello, samples, tracer)
        else:
            self._slots = BatchSlot(self, owner.feed, channel, samples, tracer)
        channel.on_message = self._slots.on_message
        if self.is_retired:
            self.retire()
        else:
            owner.feed.add(self._slots)
        owner.on_greeted()

    # ------------------------------------------------------------ time

    @property
    def is_live(self) -> bool:
        """Whether the worker answered recently, or has tasks within their time."""
        limits, is_working = self._owner.limits, bool(self.tasks)
        is_greeted = self._slots is not None
        return is_greeted and self.life.is_well(monotonic(), limits, is_working=is_working)

    def sweep(self, now: float) -> None:
        """Answer 504 to tasks past their deadline; report a worker that hangs."""
        if self._slots is not None:
            self._slots.sweep(now)
        if self.channel is None:
            self.update(self.row)  # the listener's backlog may have been full
        if self.life.is_given_up:
            return
        if reason := self._complaint(now):
            self.life.is_given_up = True
            self._take_no_more()
            address, index = self.row.address, self.row.index
            self._environment.report(Hung(address, index, self._generation, reason))
        elif self._slots is not None and not self._slots.tasks:
            self._say_while_idle(now)

    def _complaint(self, now: float) -> str:
        """Return what the worker does wrong; "" if nothing."""
        slots, limits = self._slots, self._owner.limits
        if self.channel is None:
            is_stranded = self.row.is_serving and self.row.generation == self._generation
            return self.life.absence(now) if is_stranded else ""
        if slots is None:
            return self.life.silence(now, limits.greeting_s)
        if not slots.tasks:
            return self.life.silence(now, limits.silence_s)
        return slots.complaint(now, limits)

    def _say_while_idle(self, now: float) -> None:
        if self.channel is None or self.channel.is_writing:
            return
        if self.life.is_ping_due(now):
            self.life.pinged_at = now
            self.channel.send(Ping())
        elif self.leases.returned:
            self.channel.send(Freed(self.leases.take_returned()))
