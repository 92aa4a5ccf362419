# SPDX-License-Identifier: Apache-2.0
"""Samples of the batches, for the plugins that implement ``batch_served``."""

from __future__ import annotations

from collections import Counter
from time import time
from typing import TYPE_CHECKING

from servekit.errors import DeadlineExceeded, error_class
from servekit.extension.events import BatchServed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.frontend.batching.task import Task
    from servekit.frontend.tracing.observer_port import ObserverPort
    from servekit.ipc.batches import Reply

    Stage = tuple[str, str]  #: its label, and the version of the model

__all__ = ["BatchSamples"]

PERIOD_S = 0.1  #: between two samples of one stage


class BatchSamples:
    """Sends samples to the observer; one that it does not take at once is dropped."""

    def __init__(self, port: ObserverPort) -> None:
        """Send to *port*."""
        self._port = port
        self._due: dict[Stage, float] = {}  #: when the next sample is taken
        self._batches: Counter[Stage] = Counter()  #: since the last sample

    def note(
        self, batch: Sequence[Task], reply: Reply, replica: int, sent_at: float, now: float
    ) -> None:
        """Count a batch that was answered, and send a sample if it is time for one."""
        row = batch[0].owner.row
        stage = row.label, row.version
        self._batches[stage] += 1
        if now < self._due.get(stage, 0.0):
            return
        self._due[stage] = now + PERIOD_S
        sample = BatchServed(
            time_s=time(),
            model=row.name,
            version=row.version,
            stage=row.stage,
            replica=replica,
            size=sum(reply.sizes) or len(batch),
            batches=self._batches[stage],
            queue_s=sent_at - batch[0].arrived,
            decode_s=reply.decode_s,
            predict_s=reply.predict_s,
            encode_s=reply.encode_s,
            statuses=statuses_of(batch, reply, now),
        )
        if self._port.send([sample]):
            self._batches[stage] = 0


def statuses_of(batch: Sequence[Task], reply: Reply, now: float) -> dict[int, int]:
    """Return how many tasks of *batch* were answered with each HTTP status."""
    found: Counter[int] = Counter()
    for place, (task, (error, _, _)) in enumerate(zip(batch, reply.answers, strict=True)):
        if task.deadline <= now:
            found[int(DeadlineExceeded.status)] += 1
        elif error:
            found[int(error_class(error).status)] += 1
        else:
            found[reply.responses.get(place, (200,))[0]] += 1
    return dict(found)
