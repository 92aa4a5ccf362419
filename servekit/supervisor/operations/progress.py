# SPDX-License-Identifier: Apache-2.0
"""How far an operation has got, as the routing table tells it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import time

from servekit.ipc.operations import DONE, FAILED, OperationRow, OperationStep

__all__ = ["OperationFailed", "Progress"]


class OperationFailed(Exception):
    """An operation is refused or has failed; what served before still serves."""

    def __init__(self, status: int, reason: str) -> None:
        """*status* is that of an HTTP response which says so: 403, 404, 409, 422, 507."""
        super().__init__(reason)
        self.status = status


class Progress:
    """Notes the steps of one operation in its row."""

    def __init__(self, row: OperationRow, on_change: Callable[[], object]) -> None:
        """Begin now. *on_change* publishes the row."""
        self._on_change = on_change
        self.row = row
        row.began = time()

    @contextmanager
    def step(self, name: str, detail: str = "") -> Iterator[OperationStep]:
        """Note a step that lasts as long as the ``with``; an exception fails it."""
        step = OperationStep(name, detail=detail, began=time())
        self.row.steps.append(step)
        self._on_change()
        try:
            yield step
        except Exception as error:
            step.detail = str(error)
            self._end(step, FAILED)
            raise
        self._end(step, DONE)

    def done(self) -> None:
        """Note that it has succeeded."""
        self._end(self.row, DONE)

    def failed(self, error: OperationFailed) -> None:
        """Note that it has failed."""
        self.row.error, self.row.status = str(error), error.status
        self._end(self.row, FAILED)

    def _end(self, row: OperationRow | OperationStep, state: str) -> None:
        row.state, row.ended = state, time()
        self._on_change()
