# SPDX-License-Identifier: Apache-2.0
"""The queue of one model without sockets: a batcher between connections and a worker of straw."""

import gc
import tempfile
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import monotonic, process_time
from typing import Any

from servekit.frontend.batching.batcher import Batcher
from servekit.frontend.batching.environment import BatchingEnvironment
from servekit.frontend.batching.task import Task
from servekit.frontend.batching.task_route import make_task
from servekit.frontend.memory.pressure import Pressure, QueueMemory
from servekit.frontend.metrics.counters import ModelMetrics
from servekit.ipc.batches import Item
from servekit.ipc.counter_share import Share
from servekit.ipc.counters import create_memory
from servekit.ipc.model_counters import Label
from servekit.ipc.table import Interface, ModelRow, ReplicaRow

BATCH = 32
SWEEPS = 20
BODY = b'{"x":[1.5,2.5,3.5,4.5]}'


class Straw:
    """An exchange that takes any answer, and a replica that takes any batch."""

    def fail(self, *answer: Any) -> None:
        """Forget it."""

    def send(self, tasks: list[Task], now: float) -> list[Task]:
        """Forget it."""
        return []


class QueueAlone:
    """One batcher with *count* tasks in it."""

    def __init__(self, directory: Path, count: int) -> None:
        replica = ReplicaRow(0, 1, str(directory / "nobody.sock"), "serving")
        row = ModelRow("alone", "1.0", "", [replica], BATCH, 0.0, 1e6, count, interface=Interface())
        environment = BatchingEnvironment(
            loop=None,  # type: ignore[arg-type]
            pressure=Pressure(0, 5.0),
            queue_memory=QueueMemory(2**29),
            report=lambda _message: None,
            begin_call=None,  # type: ignore[arg-type]
            front_ends=1,
            arena_bytes=2**20,
            large_body_bytes=2**20,
        )
        metrics = ModelMetrics(Share(create_memory(), 0), Label("alone", "1"))
        self.batcher = Batcher(row, metrics, {}, environment)
        self.straw = Straw()
        self.tasks: list[Task] = []
        self.count = count

    def make(self, timeout_s: float = 1e6) -> None:
        """Make the tasks, which is not measured."""
        now = monotonic()
        item = Item(BODY, b"application/json", b"", "0123456789ab-1", now + timeout_s)
        self.tasks = [
            make_task(self.batcher, self.straw, item, now)  # type: ignore[arg-type]
            for _ in range(self.count)
        ]

    def put(self) -> None:
        for task in self.tasks:
            self.batcher.put(task)

    def sweep(self) -> None:
        """Do what happens ten times a second, ``SWEEPS`` times."""
        for _ in range(SWEEPS):
            self.batcher.sweep(monotonic())

    def take(self) -> None:
        """Hand everything out in batches."""
        while len(self.batcher.queue):
            self.batcher.feed.add(self.straw)

    def cancel(self) -> None:
        """Every client goes away."""
        for task in self.tasks:
            task.cancel()

    def expire(self) -> None:
        """Every task's time is over at once."""
        self.batcher.sweep(monotonic() + 2e6)


def queue_alone(count: int, rounds: int) -> tuple[float, ...]:
    """Return microseconds per task of each step, and of whole sweeps, and bytes per task."""
    found = [_round(count) for _ in range(max(1, rounds))]
    return (*(median(values) for values in zip(*found, strict=True)), _memory(count))


def _round(count: int) -> tuple[float, ...]:
    with tempfile.TemporaryDirectory() as directory:
        alone = QueueAlone(Path(directory), count)
        alone.make()
        gc.collect()
        put_s, sweep_s, take_s = _time(alone.put, alone.sweep, alone.take)
        alone.make()
        _, cancel_s, cancelled_s = _time(alone.put, alone.cancel, alone.sweep)
        alone.make()
        _, expire_s = _time(alone.put, alone.expire)
    per_task = (put_s, take_s, cancel_s, expire_s)
    per_sweep = (sweep_s, cancelled_s)
    return (*(s * 1e6 / count for s in per_task), *(s * 1e6 / SWEEPS for s in per_sweep))


def _time(*steps: Callable[[], None]) -> list[float]:
    """Return the CPU seconds of each step, done one after another."""
    moments = [process_time()]
    for step in steps:
        step()
        moments.append(process_time())
    return [end - begin for begin, end in pairwise(moments)]


def _memory(count: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        alone = QueueAlone(Path(directory), count)
        tracemalloc.start()
        alone.make()
        alone.put()
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    return used / count
