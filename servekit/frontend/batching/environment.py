# SPDX-License-Identifier: Apache-2.0
"""The interface from replicas to their batcher, and what all batchers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.batching.queue import QueueMemory
    from servekit.frontend.batching.samples import BatchSamples
    from servekit.frontend.batching.task import Task
    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.frontend.memory.body_arena import BodyArena
    from servekit.frontend.memory.pressure import Pressure
    from servekit.ipc.control import Hung, Lost
    from servekit.ipc.table import ModelRow

__all__ = [
    "BatchingEnvironment",
    "ReplicaOwner",
    "TaskTaker",
    "TimeLimits",
    "time_limits",
]

SILENCE_S = 10.0  #: an idle worker that is silent for longer hangs


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingEnvironment:
    """Made once in each front-end process."""

    loop: EventLoop
    pressure: Pressure
    queue_memory: QueueMemory
    report: Callable[[Hung | Lost], None]  #: tells the supervisor of a worker that fails
    front_ends: int  #: that share the workers
    arena_bytes: int  #: shared memory for the large bodies of one model
    large_body_bytes: int  #: bodies of this size or more lie in shared memory
    samples: BatchSamples | None = None  #: for plugins that implement ``batch_served``


class TimeLimits(NamedTuple):
    """How long a worker may take before it hangs."""

    step_s: float  #: between two outputs of a worker that streams
    batch_s: float  #: for a batch
    silence_s: float  #: while it has nothing to do, as it is asked for a sign of life


def time_limits(predict_timeout_s: float, front_ends: int) -> TimeLimits:
    """Return the limits: a worker may first have to finish a batch of each other front-end."""
    others_s = predict_timeout_s * (front_ends - 1)
    return TimeLimits(predict_timeout_s, predict_timeout_s + others_s, SILENCE_S + others_s)


class TaskTaker(Protocol):
    """A replica, as its batcher needs it to send a batch."""

    def send(self, tasks: list[Task], now: float) -> list[Task]:
        """Hand *tasks* to the worker, and return those that it has no room for."""


class ReplicaOwner(Protocol):
    """The batcher of a replica, as the replica needs it."""

    @property
    def row(self) -> ModelRow:
        """The model, or the stage."""

    @property
    def bodies(self) -> BodyArena:
        """Where large bodies lie."""

    @property
    def limits(self) -> TimeLimits:
        """How long a worker may take."""

    def on_room(self, replica: TaskTaker) -> None:
        """*replica* can take tasks."""

    def on_room_left(self, replica: TaskTaker) -> None:
        """*replica* can take tasks even after it was sent some."""

    def on_busy(self, replica: TaskTaker) -> None:
        """*replica* can take no tasks until ``on_room``."""

    def on_greeted(self) -> None:
        """A worker has greeted: it can take over from those that leave."""

    def on_lost(self, batch: list[Task]) -> list[Task]:
        """The worker that had *batch* is lost; return the tasks that will go to another one."""

    def dispatch(self) -> None:
        """Send tasks that wait to replicas that can take them."""
