# SPDX-License-Identifier: Apache-2.0
"""Answers requests with an async service, each in a task: decode, await, encode."""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import RequestError
from servekit.service.base import Service
from servekit.worker.coroutines.loop import is_being_cancelled, settled
from servekit.worker.inputs.input_kind import singles
from servekit.worker.prediction.batch_result import BatchResult, Failed, PendingTask
from servekit.worker.prediction.predictor import Predictor, ReadInput

if TYPE_CHECKING:
    from servekit.ipc.cancellation import CancelledReader
    from servekit.worker.coroutines.loop import WorkerLoop
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.prediction.request_reader import InputReaders

__all__ = ["AsyncPredictor"]


class AsyncPredictor(Predictor):
    """A predictor whose ``predict`` is a coroutine that takes one input.

    ``answer`` blocks, and predicts all inputs of a batch at the same time: examples, warm-up and
    tests use it. A worker that serves awaits ``answer_one`` in a task for each request.
    """

    def __init__(self, loop: WorkerLoop, service: Service, *arguments: Any, **options: Any) -> None:
        """Run *service* on *loop*; see ``Predictor`` for the rest."""
        self._loop = loop
        predict = partial(loop.call, self._predict_at_once)
        super().__init__(service, *arguments, predict=predict, **options)
        has_postprocess = type(service).postprocess is not Service.postprocess
        self._own_postprocess = service.postprocess if has_postprocess else None

    async def answer_one(
        self, item: OpenItem, number: int = 0, cancelled: CancelledReader | None = None
    ) -> BatchResult:
        """Answer one request as a batch of one. Raises only ``CancelledError``.

        :param cancelled: knows the client of *item* as place 0 of the batch *number*.
        """
        started = monotonic()
        try:
            plans = self.plans if item.style is None else self.plans.of(item.style)
            task = PendingTask(0, plans[item.accept], item.request_id, item.deadline)
            value = await self.input_of(item, number, cancelled)
        except BaseException as error:
            if is_being_cancelled(error):
                raise
            answer = self.failed("preprocess", error, [item.request_id])
            return BatchResult([answer], monotonic() - started, 0.0, 0.0, {})
        self._current.tasks, decoded = (task,), monotonic()
        output = await self._output(task, value)
        predicted = monotonic()
        answers: list[Any] = [None]
        self.write_outputs([task], [output], answers)
        responses = self.end()
        encode_s = monotonic() - predicted
        return BatchResult(answers, decoded - started, predicted - decoded, encode_s, responses)

    def _reader(self, inputs: InputReaders) -> ReadInput:
        if not self.has_preprocess:
            return super()._reader(inputs)
        preprocess, request = self._service.preprocess, self._current.request
        call = self._loop.call
        return lambda _header, _body, place: self.check(call(preprocess, request(place)))

    async def input_of(self, item: OpenItem, number: int, cancelled: CancelledReader | None) -> Any:
        """Return what the service gets for *item*. Raises what ``preprocess`` raises."""
        self._current.batch = (item,), number, cancelled
        if not self.has_preprocess:
            return self.single(self.read(item.content_type, item.body, 0))
        made = await settled(self._service.preprocess(self._current.request(0)))
        return self.single(self.check(made))

    async def _output(self, task: PendingTask, value: Any) -> Any:
        """Return the output for *value*, after ``postprocess``; or a ``Failed``."""
        where = "predict"
        try:
            output = await self._service.predict(value)
            if self._own_postprocess is not None and not isinstance(output, RequestError):
                where = "postprocess"
                output = await settled(self._own_postprocess(output))
        except BaseException as error:
            if is_being_cancelled(error):
                raise
            return Failed(self.failed(where, error, [task.request_id]))
        return output

    async def _predict_at_once(self, batch: Any) -> list[Any]:
        """Return an output, or a ``Failed``, for each input of *batch*."""
        pairs = zip(self._current.tasks, singles(batch), strict=True)
        return await asyncio.gather(*[self._alone(task, value) for task, value in pairs])

    async def _alone(self, task: PendingTask, value: Any) -> Any:
        """Do what ``_output`` does in a task whose context has no other requests."""
        self._current.tasks = (task,)
        return await self._output(task, value)
