# SPDX-License-Identifier: Apache-2.0
"""One request's input on its way through admission and batcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from servekit.ipc.batches import Slab

if TYPE_CHECKING:
    from servekit.errors import ServekitError

__all__ = ["INFINITY", "Task"]

INFINITY = float("inf")


class Task(Struct, eq=False):
    """Belongs to its connection; is answered exactly once, or dropped when the client has gone."""

    connection: Any  #: a ``Connection``
    batcher: Any  #: the ``Batcher`` of its model
    item: Any  #: the ``Item`` that a worker will get
    request_id: str
    arrived: float  #: ``monotonic``
    deadline: float  #: ``monotonic``
    body_bytes: int
    until: float = INFINITY  #: ``monotonic``: all of a stream; ``deadline`` is of its next output
    is_sent: bool = False  #: a worker has it
    is_done: bool = False  #: answered, or nobody waits for the answer any more
    is_cancelled: bool = False  #: its client went away while a worker had it
    was_lost: bool = False  #: a worker was lost with it: it is tried once more, alone
    headers: dict[str, str] | None = None  #: those that its service asked for, if there are any
    step: Any = None  #: of a pipeline, a ``Part``: takes the answer in place of the connection

    def fail(self, error: ServekitError) -> None:
        """Answer with a problem, unless it is done already."""
        if not self.is_done:
            self.is_done = True
            self.drop_body()
            if self.step is None:
                self.connection.answer_problem(error, self.request_id)
            else:
                self.step.fail(error)

    def drop_body(self) -> None:
        """Give the shared memory of a body back that no worker has been sent."""
        body = self.item[0]
        if type(body) is Slab and not self.is_sent:
            self.batcher.bodies.free(body)

    def cancel(self) -> None:
        """The client has gone: no worker needs to see this task, or to go on with it."""
        self.batcher.cancel(self)
