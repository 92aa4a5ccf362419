# SPDX-License-Identifier: Apache-2.0
"""Answers a batch with a loaded service: bytes in, bytes out. Knows nothing of sockets."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import RequestError
from servekit.extension.envelope import Rows
from servekit.ipc.cancellation import CancelledReader
from servekit.service.base import Service
from servekit.service.response import Response
from servekit.worker.inputs.input_kind import InputKind, singles
from servekit.worker.prediction.batch_result import (
    EXPIRED,
    GONE,
    Answered,
    BatchResult,
    Failed,
    PendingTask,
    Responses,
    outputs_of,
)
from servekit.worker.prediction.current_batch import NO_BATCH, CurrentBatch, Items, OpenItem
from servekit.worker.prediction.error_answers import error_answer, logged_answer
from servekit.worker.prediction.negotiation import AS_OBJECT, Plans
from servekit.worker.prediction.request_reader import InputReaders
from servekit.worker.prediction.response_writer import blame_client, respond, written

if TYPE_CHECKING:
    from servekit.worker.prediction.row_calls import MakeRowCalls

__all__ = ["Predictor", "ReadInput"]

#: content type, body and place in the batch to a checked input
ReadInput = Callable[[bytes, Any, int], Any]


class Predictor:
    """Answers batches with one loaded service. An error fails as few items as possible."""

    def __init__(
        self,
        service: Service,
        kind: InputKind,
        plans: Plans,
        current: CurrentBatch,
        inputs: InputReaders,
        *,
        predict: Callable[[Any], Any] | None = None,
        native: InputReaders | None = None,
        rows: "MakeRowCalls | None" = None,
        max_answer_bytes: int = 1 << 30,
        is_dev: bool = False,
    ) -> None:
        """Prepare the steps for *service*; those that it does not override are not called.

        :param native: in place of *inputs*, for requests that no envelope has opened.
        :param predict: called in place of the service's own, includes ``postprocess``.
        :param rows: makes what predicts ``Rows``, if there is a signature.
        """
        self.has_preprocess = type(service).preprocess is not Service.preprocess
        #: whether a body of a content type may be a view: ``Request`` makes bytes of it on demand
        self.takes_view: Callable[[bytes], bool] = (
            (lambda _header: True) if self.has_preprocess else inputs.takes_views
        )
        has_postprocess = type(service).postprocess is not Service.postprocess and not predict
        is_single = self.has_preprocess or has_postprocess or predict is not None
        self.postprocess = service.postprocess if has_postprocess else None
        self._call = predict or service.predict
        self._service, self.kind, self.plans = service, kind, plans
        self.check = kind.check  #: makes an input of a decoded value
        self._current = current
        #: reads the input of a request that an envelope opened
        self.read_single = self._reader(inputs)
        self.read = self._reader(inputs if native is None else native)
        self.max_answer_bytes, self._is_dev = max_answer_bytes, is_dev
        self._responses: Responses = {}  #: for the current batch
        self.is_leaving = False  #: the service asked the process to exit
        #: predicts ``Rows``; ``None`` without a signature, or with a method for single inputs
        self.rows = None if rows is None or is_single else rows(self._call, self.failed)
        inputs.takes_rows = self.rows is not None

    def answer(
        self,
        items: Sequence[OpenItem],
        number: int = 0,
        cancelled: CancelledReader | None = None,
        places: Sequence[int] | None = None,
    ) -> BatchResult:
        """Answer *items*, in their order. Blocks as long as the service does; raises nothing.

        :param number: of the batch, by which *cancelled* knows it.
        :param places: of the items that are for this predictor; ``None``: all of them.
        """
        started = monotonic()
        answers: list[Any] = [None] * len(items)
        self.begin(items, number, cancelled, answers)
        mine = enumerate(items) if places is None else [(place, items[place]) for place in places]
        tasks, inputs = self.read_items(mine, answers, started, self.plans)
        decoded = monotonic()
        outputs = self.predict_all(tasks, inputs) if tasks else []
        predicted = monotonic()
        self.write_outputs(tasks, outputs, answers)
        encoded = monotonic()
        responses = self.end()
        decode_s, predict_s, encode_s = decoded - started, predicted - decoded, encoded - predicted
        sizes = self.rows.sizes if self.rows is not None else []
        return BatchResult(answers, decode_s, predict_s, encode_s, responses, sizes=sizes)

    def single(self, value: Any) -> Any:
        """Return what a service that takes one input gets for *value*, which has been read."""
        if self.kind.batches is None:
            return value
        ((_, batch),) = self.kind.batches([value])
        return singles(batch)[0]

    def _reader(self, inputs: InputReaders) -> ReadInput:
        """Return what makes the input of an item: ``preprocess`` if there is one, or *inputs*."""
        if not self.has_preprocess:
            return lambda header, body, _place: inputs[header](body)
        preprocess, request = self._service.preprocess, self._current.request
        return lambda _header, _body, place: self.check(preprocess(request(place)))

    # ------------------------------------------------------------ its parts, in their order

    def begin(
        self,
        items: Items,
        number: int,
        cancelled: CancelledReader | None,
        answers: list[Any],
    ) -> bool:
        """Show the service the batch; answer clients that disconnected, return if there are any."""
        if self._responses:  # left by a batch that failed while it was sent
            self._responses = {}
        if self.rows is not None:
            self.rows.sizes = []
        self._current.batch = items, number, cancelled
        if cancelled is None or not cancelled.has_any(number):
            return False
        for place in range(len(answers)):
            if cancelled.has(number, place):
                answers[place] = GONE
        return True

    def end(self) -> Responses:
        """Hide the batch from the service; return the statuses and headers that it chose."""
        self._current.batch, self._current.tasks = NO_BATCH, ()
        responses, self._responses = self._responses, {}
        return responses

    def read_items(
        self,
        items: Iterable[tuple[int, OpenItem]],
        answers: list[Any],
        now: float,
        plans: Plans,
    ) -> tuple[list[PendingTask], list[Any]]:
        """Return a task and an input for each item that has no answer yet.

        :param items: with their places.
        :param plans: of the predictor that writes the outputs.
        """
        read, read_single = self.read, self.read_single
        tasks: list[PendingTask] = []
        inputs: list[Any] = []
        for place, item in items:
            if item.deadline <= now:
                answers[place] = EXPIRED
            if answers[place] is not None:
                continue
            try:
                plan = (plans if item.style is None else plans.of(item.style))[item.accept]
                make = read if plan is not AS_OBJECT else read_single
                inputs.append(make(item.content_type, item.body, place))
                tasks.append(PendingTask(place, plan, item.request_id, item.deadline))
            except BaseException as error:  # noqa: BLE001 - an author's preprocess may raise anything
                answers[place] = self.failed("preprocess", error, [item.request_id])
        return tasks, inputs

    def predict_all(self, tasks: list[PendingTask], inputs: list[Any]) -> list[Any]:
        """Return an output, or a ``Failed``, for every task."""
        try:
            if self.kind.batches is None:
                return self._predict_batch(tasks, inputs)
            if self.rows is not None and Rows in map(type, inputs):
                return self.rows.predict(tasks, inputs)
            batches = tuple(self.kind.batches(inputs))
        except BaseException as error:  # noqa: BLE001 - stacking may run out of memory
            return self._failed_batch(error, tasks)
        outputs: list[Any] = [None] * len(tasks)
        for members, batch in batches:
            if members is None:
                return self._predict_batch(tasks, batch)
            found = self._predict_batch([tasks[place] for place in members], batch)
            for place, output in zip(members, found, strict=True):
                outputs[place] = output
        return outputs

    def _predict_batch(self, tasks: list[PendingTask], batch: Any) -> list[Any]:
        self._current.tasks = tasks
        try:
            result = self._call(batch)
            return outputs_of(result, len(tasks), may_be_mapping=type(batch) is dict)
        except BaseException as error:  # noqa: BLE001 - an author's predict may raise anything
            return self._failed_batch(error, tasks)

    def _failed_batch(self, error: BaseException, tasks: list[PendingTask]) -> list[Any]:
        answer = self.failed("predict", error, [task.request_id for task in tasks])
        return [Failed(answer)] * len(tasks)

    def write_outputs(
        self, tasks: list[PendingTask], outputs: list[Any], answers: list[Any]
    ) -> None:
        """Answer *tasks*, each with its output as its plan writes it."""
        for task, output in zip(tasks, outputs, strict=True):
            place, plan = task.place, task.plan
            if type(output) is Failed:
                answers[place] = output.answer
                continue
            if isinstance(output, RequestError):
                answers[place] = error_answer(output)
                continue
            try:
                if self.postprocess is not None:
                    output = self.postprocess(output)
                elif type(output) is Rows and self.rows is not None:
                    output = self.rows.written(output, is_object=plan is AS_OBJECT)
                if plan is AS_OBJECT:
                    answers[place] = ("", "", self.plans.as_object(output))
                elif isinstance(output, Response):
                    found = respond(plan, output, self.max_answer_bytes)
                    self._responses[place] = found[:2]
                    answers[place] = ("", *found[2:])
                else:
                    answers[place] = ("", *written(plan, output, self.max_answer_bytes))
            except BaseException as error:  # noqa: BLE001 - an author's postprocess too
                where = "postprocess" if self.postprocess else "answer"
                request = partial(self._current.request, place)
                error = blame_client(error, plan, request, has_preprocess=self.has_preprocess)
                answers[place] = self.failed(where, error, [task.request_id])

    def failed(self, where: str, error: BaseException, request_ids: list[str]) -> Answered:
        """Return the answer of *request_ids*; an error that is not the client's is logged."""
        if isinstance(error, SystemExit):
            self.is_leaving = True
        if isinstance(error, RequestError):
            return error_answer(error)
        return logged_answer(error, self._service, where, request_ids, is_dev=self._is_dev)
