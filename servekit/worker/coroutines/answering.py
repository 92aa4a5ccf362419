# SPDX-License-Identifier: Apache-2.0
"""The answer of one request: of its one input, or of all that its protocol has put into it."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from servekit.worker.envelopes.batch import CancelledInputs
from servekit.worker.prediction.batch_result import BatchResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.ipc.cancellation import CancelledReader
    from servekit.worker.coroutines.predictor import AsyncPredictor
    from servekit.worker.envelopes.opened import OpenedRequest
    from servekit.worker.envelopes.table import EnvelopeTable
    from servekit.worker.prediction.current_batch import OpenItem

__all__ = ["Answering"]


class Answering:
    """Answers requests of one worker."""

    def __init__(self, envelopes: EnvelopeTable, room: asyncio.Semaphore) -> None:
        """Read the requests of protocols with *envelopes*; each input takes a place in *room*."""
        self._envelopes, self._room = envelopes, room

    async def answer(
        self,
        predictor: AsyncPredictor,
        item: OpenItem,
        number: int,
        place: int,
        cancelled: CancelledReader | None,
    ) -> BatchResult:
        """Return the answer of *item* as a batch of one. Raises only ``CancelledError``.

        :param cancelled: knows its client as *place* of *number*.
        """
        gone = None if cancelled is None else CancelledInputs(cancelled, (place,))
        if item.protocol is None:
            return await self._answer(predictor, item, number, gone)
        started = monotonic()
        try:
            opened = self._envelopes.open(item)
            items = opened.items()
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
            refusal = self._envelopes.failed(item, error)
            return BatchResult([refusal], monotonic() - started, 0.0, 0.0, {})
        decode_s = monotonic() - started
        inputs = [self._answer(predictor, each, number, gone) for each in items]
        return _gathered(opened, await asyncio.gather(*inputs), decode_s)

    async def _answer(
        self, predictor: AsyncPredictor, item: OpenItem, number: int, gone: CancelledInputs | None
    ) -> BatchResult:
        async with self._room:
            return await predictor.answer_one(item, number, gone)


def _gathered(
    opened: OpenedRequest, results: Sequence[BatchResult], decode_s: float
) -> BatchResult:
    """Return the answer of *opened*, which has *results* for its inputs."""
    began = monotonic()
    answers = [result.answers[0] for result in results]
    refusal = next((answer for answer in answers if answer[0]), None)
    answer = refusal or opened.answer([output for _, _, output in answers])
    times = [max(each, default=0.0) for each in zip(*(r.times for r in results), strict=True)]
    decoded_s, predict_s, encode_s = times or [0.0, 0.0, 0.0]
    return BatchResult(
        [answer],
        decode_s + decoded_s,
        predict_s,
        encode_s + monotonic() - began,
        {} if opened.response is None else {0: opened.response},
        pieces={} if opened.pieces is None else {0: opened.pieces},
    )
