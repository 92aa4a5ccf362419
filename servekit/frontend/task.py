# SPDX-License-Identifier: Apache-2.0
"""One request's input on its way through admission and batcher."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.messages import Slab

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.frontend.batcher import Batcher
    from servekit.frontend.connection import Connection
    from servekit.messages import Item

__all__ = ["Task"]


class Task:
    """Belongs to its connection; is answered exactly once, or dropped when the client has gone."""

    __slots__ = (
        "arrived",
        "batcher",
        "connection",
        "deadline",
        "is_done",
        "is_sent",
        "item",
        "request_id",
    )

    def __init__(
        self, connection: Connection, batcher: Batcher, item: Item, arrived: float
    ) -> None:
        """Hold *item* from *arrived* (``monotonic``) on; its deadline travels inside the item."""
        self.batcher = batcher
        self.connection = connection
        self.item = item
        self.request_id = item[3]
        self.deadline = item[4]
        self.arrived = arrived
        self.is_sent = False  #: a worker has it
        self.is_done = False  #: answered, or nobody waits for the answer any more

    def fail(self, error: ServekitError) -> None:
        """Answer with a problem, unless it is done already."""
        if not self.is_done:
            self.is_done = True
            self.drop_body()
            self.connection.answer_problem(error, self.request_id)

    def drop_body(self) -> None:
        """Give the shared memory of a body back that no worker has been sent."""
        body = self.item[0]
        if type(body) is Slab and not self.is_sent:
            self.batcher.bodies.free(body)

    def cancel(self) -> None:
        """The client has gone: no worker needs to see this task any more."""
        self.batcher.cancel(self)
