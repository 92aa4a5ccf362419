# SPDX-License-Identifier: Apache-2.0
"""The answer of one batch, whatever goes wrong."""

from typing import TYPE_CHECKING, Any

from servekit.worker.prediction.batch_result import BatchResult
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.process.log import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.service.spans import SpanRecorder
    from servekit.worker.envelopes.batch import EnvelopedBatch
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.prediction.methods import Mixed
    from servekit.worker.prediction.predictor import Predictor
    from servekit.worker.prediction.runs import Run

    Speaker = Predictor | Run | Mixed

__all__ = ["answer_with"]


def answer_with(
    recorder: "SpanRecorder | None",
    speaker: "Speaker | EnvelopedBatch",
    items: "Sequence[OpenItem]",
    *batch: Any,
) -> BatchResult:
    """Return the result of *speaker*, with the spans that *recorder* gets.

    If it raises, the batch fails and the worker continues.
    """
    if recorder is None:
        return _answer_with(speaker, items, *batch)
    with recorder.active():
        result = _answer_with(speaker, items, *batch)
    return BatchResult(*result[:-1], recorder.finish())


def _answer_with(
    speaker: "Speaker | EnvelopedBatch", items: "Sequence[OpenItem]", *batch: Any
) -> BatchResult:
    try:
        return speaker.answer(items, *batch)
    except Exception as error:  # noqa: BLE001 - a bug, or an output that no check has foreseen
        report("batch failed", error, [item.request_id for item in items])
        return BatchResult([error_answer(error)] * len(items), 0.0, 0.0, 0.0, {})
