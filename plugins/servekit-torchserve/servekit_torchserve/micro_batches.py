# SPDX-License-Identifier: Apache-2.0
"""Batches that a handler takes apart: some parts are prepared while others are predicted."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit_torchserve.context import HandlerContext

__all__ = ["MicroBatching"]


class MicroBatching:
    """Stands for ``handle`` of a handler with ``preprocess``, ``inference`` and ``postprocess``."""

    def __init__(self, parent_handler: Any, micro_batch_size: int = 1) -> None:
        """Call the three steps of *parent_handler* with at most *micro_batch_size* requests."""
        self._handler = parent_handler
        self.micro_batch_size = micro_batch_size
        self._parallelism: dict[str, int] = {}
        self._threads: ThreadPoolExecutor | None = None

    @property
    def parallelism(self) -> Mapping[str, int]:
        """The number of threads of each step; so many parts are worked on at once as all have."""
        return self._parallelism

    @parallelism.setter
    def parallelism(self, threads: Mapping[str, int]) -> None:
        self.shutdown()
        self._parallelism = dict(threads)

    def handle(self, data: Sequence[Any], context: HandlerContext) -> list[Any]:
        """Answer a batch."""
        started, size = time.perf_counter(), max(1, self.micro_batch_size)
        self._handler.context = context
        if self._threads is None:
            self._threads = ThreadPoolExecutor(sum(self._parallelism.values()) or 3)
        parts = [data[start : start + size] for start in range(0, len(data), size)]
        outputs = [each for part in self._threads.map(self._answer, parts) for each in part]
        elapsed_ms = (time.perf_counter() - started) * 1000
        context.metrics.add_time("HandlerTime", round(elapsed_ms, 2), None, "ms")
        return outputs

    __call__ = handle

    def _answer(self, part: Sequence[Any]) -> list[Any]:
        handler = self._handler
        found: list[Any] = handler.postprocess(handler.inference(handler.preprocess(part)))
        return found

    def shutdown(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
