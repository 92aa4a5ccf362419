# SPDX-License-Identifier: Apache-2.0
"""One request's input on its way through admission and batcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from servekit.frontend.http.fields import TRACE, picked
from servekit.ipc.batches import Slab

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.extension.exchange import Exchange
    from servekit.frontend.batching.batcher import Batcher
    from servekit.ipc.batches import SentItem

__all__ = ["INFINITY", "Task", "make_task"]

INFINITY = float("inf")


class Task(Struct, eq=False):
    """Answered exactly once, or dropped when the client has disconnected."""

    exchange: Exchange
    batcher: Any  #: the ``Batcher`` of its model
    item: SentItem
    request_id: str
    arrived: float  #: ``monotonic``
    deadline: float  #: ``monotonic``
    body_bytes: int
    until: float = INFINITY  #: ``monotonic``: all of a stream; ``deadline`` is of its next output
    is_sent: bool = False  #: a worker has it
    is_done: bool = False  #: answered, or nobody waits for the answer any more
    is_cancelled: bool = False  #: its client went away while a worker had it
    was_lost: bool = False  #: a worker was lost with it: it is tried once more, alone
    step: Any = None  #: of a pipeline, a ``Part``: takes the answer in place of the exchange

    def fail(self, error: ServekitError) -> None:
        """Answer with a problem, unless it is done already."""
        if not self.is_done:
            self.is_done = True
            self.drop_body()
            if self.step is None:
                self.exchange.fail(error, self.request_id)
            else:
                self.step.fail(error)

    def drop_body(self) -> None:
        """Give the shared memory of a body back that no worker has been sent."""
        body = self.item.body
        if type(body) is Slab and not self.is_sent:
            self.batcher.bodies.free(body)

    def cancel(self) -> None:
        """The client has gone: no worker needs to see this task, or to go on with it."""
        self.batcher.cancel(self)


def make_task(
    batcher: Batcher,
    exchange: Exchange,
    item: SentItem,
    headers: dict[bytes, bytes],
    now: float,
    until: float,
) -> Task:
    """Return the task that *item* becomes in the queue of *batcher*.

    :param headers: of the request, and parameters of its query; the service sees what it asked for.
    :param now: when it arrived, ``monotonic``.
    :param until: as ``Task.until``.
    """
    body = item.body
    size = len(body) if isinstance(body, bytes) else body.size
    if TRACE in headers or batcher.asked:
        item.headers = picked(headers, batcher.asked)
    return Task(exchange, batcher, item, item.request_id, now, item.deadline, size, until)
