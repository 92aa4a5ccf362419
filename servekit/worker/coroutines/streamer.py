# SPDX-License-Identifier: Apache-2.0
"""Answers requests with a service whose outputs come one by one from an async iterator."""

from __future__ import annotations

from contextlib import aclosing
from math import inf
from typing import TYPE_CHECKING, Any

from servekit.worker.coroutines.loop import is_being_cancelled, settled
from servekit.worker.coroutines.predictor import AsyncPredictor
from servekit.worker.prediction.batch_result import Failed, PendingTask
from servekit.worker.streaming.stepping import advance_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from servekit.ipc.cancellation import CancelledReader
    from servekit.service.request import Request
    from servekit.worker.prediction.current_batch import OpenItem

__all__ = ["AsyncStreamer"]


class AsyncStreamer(AsyncPredictor):
    """A predictor whose output for an input is the list of all that its iterator yields."""

    most_steps: float = inf  #: limit of ``answer``, which ``servekit check`` sets for endpoints

    def __init__(
        self, start: Callable[[Any], Any], *arguments: Any, is_stepped: bool, **options: Any
    ) -> None:
        """Call *start* with each input for its async iterator; see ``AsyncPredictor``.

        :param is_stepped: it yields what ``step`` returns for a slot; otherwise outputs.
        """
        super().__init__(*arguments, **options)
        self._start, self._is_stepped = start, is_stepped

    async def open(
        self, item: OpenItem, number: int, cancelled: CancelledReader | None
    ) -> tuple[Any, Request]:
        """Return the input and the request of *item*, which the running task has from now on."""
        value = await self.input_of(item, number, cancelled)
        self._current.tasks = (PendingTask(0, self.plans.piece, item.request_id, item.deadline),)
        return value, self._current.request(0)

    async def outputs(self, value: Any) -> AsyncGenerator[list[Any], None]:
        """Yield the outputs for *value*, after ``postprocess``. Raises what the service raises."""
        started = await settled(self._start(value))
        try:
            async for entry in started:
                advance = advance_of(entry if self._is_stepped else [entry])
                if advance.error is not None:
                    raise advance.error
                found = [*advance.outputs]
                if self._own_postprocess is not None:
                    found = [await settled(self._own_postprocess(output)) for output in found]
                yield found
                if advance.is_over:
                    return
        finally:
            if hasattr(started, "aclose"):
                await started.aclose()

    async def _output(self, task: PendingTask, value: Any) -> Any:
        try:
            return await self._collected(value)
        except BaseException as error:
            if is_being_cancelled(error):
                raise
            return Failed(self.failed("stream", error, [task.request_id]))

    async def _collected(self, value: Any) -> list[Any]:
        collected, steps = [], 0
        async with aclosing(self.outputs(value)) as found:
            async for outputs in found:
                collected += outputs
                steps += 1
                if steps >= self.most_steps:
                    break
        return collected
