# SPDX-License-Identifier: Apache-2.0
"""The interfaces between batchers, replicas and slots, and what all batchers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.frontend.batching.call_port import BeginCall
    from servekit.frontend.batching.leases import Leases
    from servekit.frontend.batching.liveness import Liveness, TimeLimits
    from servekit.frontend.batching.queue import BatchFeed
    from servekit.frontend.batching.samples import BatchSamples
    from servekit.frontend.batching.task import Task
    from servekit.frontend.batching.tracer import Tracer
    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.frontend.memory.body_arena import BodyArena
    from servekit.frontend.memory.pressure import Pressure, QueueMemory
    from servekit.frontend.tracing.traces import Traces
    from servekit.ipc.batches import ReplyMessage
    from servekit.ipc.control import Hung, Lost, Wanted
    from servekit.ipc.table import ModelRow, ReplicaRow

__all__ = [
    "BatchingEnvironment",
    "ReplicaOwner",
    "SlotOwner",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingEnvironment:
    """Made once in each front-end process."""

    loop: EventLoop
    pressure: Pressure
    queue_memory: QueueMemory
    report: Callable[[Hung | Lost | Wanted], None]  #: to the supervisor
    begin_call: BeginCall  #: starts predictions that services ask for
    front_ends: int  #: that share the workers
    arena_bytes: int  #: shared memory for the large bodies of one model
    large_body_bytes: int  #: bodies of this size or more lie in shared memory
    busy_poll_s: float = 0.0  #: how long it may wait for a worker without sleep; 0: it may not
    keep_bodies: int = 0  #: largest body that crash reports have, in bytes; 0: none
    wake_timeout_s: float = 30.0  #: how long a request waits for a model that is loaded on demand
    samples: BatchSamples | None = None  #: for plugins that implement ``batch_served``
    traces: Traces | None = None  #: for plugins that implement ``request_traced``


class SlotOwner(Protocol):
    """A replica, as the slots of its worker need it."""

    row: ReplicaRow
    leases: Leases
    life: Liveness
    is_retired: bool

    def on_message(self, message: ReplyMessage) -> None:
        """Handle a message that answers no task."""

    def report_lost(self, batch: Sequence[Task]) -> None:
        """Report the worker, whose answers to *batch* are malformed."""

    def give_back(self, tasks: list[Task]) -> None:
        """Let other workers have *tasks*, which the worker, which exits, has not taken."""

    def retire(self) -> None:
        """Close the channel once the worker has no tasks. Only if ``is_retired``."""

    def close(self) -> None:
        """Close the channel: the tasks of the worker are lost."""


class ReplicaOwner(Protocol):
    """The batcher of a replica, as the replica needs it."""

    @property
    def row(self) -> ModelRow:
        """The model, or the stage."""

    @property
    def bodies(self) -> BodyArena:
        """Where large bodies lie."""

    @property
    def feed(self) -> BatchFeed:
        """The sender of tasks to workers that can take them."""

    @property
    def tracer(self) -> Tracer | None:
        """The tracer, if a plugin wants traces."""

    @property
    def limits(self) -> TimeLimits:
        """How long a worker may take."""

    def on_greeted(self) -> None:
        """A worker has greeted: it can take over from those that leave."""

    def on_lost(self, batch: list[Task]) -> list[Task]:
        """The worker that had *batch* is lost; return the tasks that will go to another one."""

    def on_untaken(self, tasks: list[Task]) -> list[Task]:
        """A worker leaves *tasks* to another one; return those that will go there."""
