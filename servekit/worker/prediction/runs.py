# SPDX-License-Identifier: Apache-2.0
"""Stages that share a worker: a batch passes through their services as objects."""

from __future__ import annotations

from itertools import pairwise
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from servekit.errors import RequestError, ServekitError
from servekit.ipc.batches import MODEL_VALUE, Item
from servekit.service.response import Response
from servekit.service.spans import begin_stage
from servekit.worker.codecs.value import as_declared
from servekit.worker.codecs.value import model_value as codec
from servekit.worker.inputs.input_kind import AnyInput
from servekit.worker.prediction.batch_result import EXPIRED, BatchResult, Failed, are_plain
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.prediction.response_writer import own_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from servekit.ipc.cancellation import CancelledReader
    from servekit.worker.prediction.batch_result import PendingTask
    from servekit.worker.prediction.current_batch import Items, OpenItem
    from servekit.worker.prediction.negotiation import Plans
    from servekit.worker.prediction.predictor import Predictor
    from servekit.worker.prediction.row_calls import RowCalls

    #: its number, and which of its clients have disconnected
    Batch = tuple[int, CancelledReader | None]

__all__ = ["Batch", "Run"]

VALUE_HEADER = MODEL_VALUE.encode()
DEADLINE = attrgetter("deadline")


class Run:
    """Answers batches by several services, one after another; stands for a ``Predictor``.

    Each service gets the object that the one before returned, not encoded. An item that fails in
    one of them skips the others, and the rest of the batch continues.
    """

    def __init__(self, steps: Sequence[tuple[str, Predictor]]) -> None:
        """Take *steps* one after another, each with the name of its stage."""
        self._predictors = [predictor for _, predictor in steps]
        self._first, (self.last_name, self.last) = self._predictors[0], steps[-1]
        #: the last entry: whether any output of the giver can be an input of the taker
        self._seams = [
            (name, giver, taker, _takes_any(taker) and giver.postprocess is None)
            for (name, giver), (_, taker) in pairwise(steps)
        ]
        self.takes_view = self._first.takes_view

    @property
    def is_leaving(self) -> bool:
        """A service asked the process to exit."""
        return any(predictor.is_leaving for predictor in self._predictors)

    @property
    def rows(self) -> RowCalls | None:
        """Return the calls of the last service with ``Rows``; ``None`` if one cannot have them."""
        can_all = all(predictor.rows is not None for predictor in self._predictors)
        return self.last.rows if can_all else None

    def answer(
        self,
        items: Sequence[OpenItem],
        number: int = 0,
        cancelled: CancelledReader | None = None,
        places: Sequence[int] | None = None,
    ) -> BatchResult:
        """Answer *items*; see ``Predictor.answer``. ``steps`` of the result says what each took."""
        last, answers = self.last, list[Any]([None]) * len(items)
        mine = enumerate(items) if places is None else [(place, items[place]) for place in places]
        led = self.lead(items, mine, (number, cancelled), answers, last.plans)
        begin_stage(self.last_name)
        outputs = last.predict_all(led.tasks, led.inputs) if led.tasks else []
        predicted = monotonic()
        if led.tasks:
            led.steps[self.last_name] = predicted - led.handed_on
        last.write_outputs(led.tasks, outputs, answers)
        responses = last.end()
        encoded = monotonic()
        times = led.decode_s, predicted - led.decoded, encoded - predicted
        sizes = last.rows.sizes if last.rows is not None else []
        return BatchResult(answers, *times, responses, led.steps, sizes=sizes)

    def lead(
        self,
        items: Items,
        mine: Iterable[tuple[int, OpenItem]],
        batch: Batch,
        answers: list[Any],
        plans: Plans,
    ) -> Led:
        """Take *mine* to the last service, which sees the batch from then on; answer the others.

        :param mine: the items that are for this run, with their places.
        :param plans: of the predictor that writes the outputs.
        """
        started, first = monotonic(), self._first
        first.begin(items, *batch, answers)
        tasks, inputs = first.read_items(mine, answers, started, plans)
        earliest = min(map(DEADLINE, tasks), default=0.0)
        decoded = now = monotonic()
        steps: dict[str, float] = {}
        for name, giver, taker, is_bare in self._seams:
            begin_stage(name)
            outputs = giver.predict_all(tasks, inputs) if tasks else []
            before, now = now, monotonic()
            if tasks:
                steps[name] = now - before
            is_whole = is_bare and now < earliest and are_plain(outputs)
            if not is_whole:
                tasks, outputs = _handed_on(giver, tasks, outputs, answers)
            giver.end()
            if taker.begin(HandedOn(items, tasks, outputs), *batch, answers) or not is_whole:
                tasks, inputs = _taken(taker, tasks, outputs, answers, now)
            else:
                inputs = [*outputs]  # a copy, as the giver may keep its list
        return Led(tasks, inputs, decoded - started, decoded, now, steps)


class Led(NamedTuple):
    """A batch before the last service of a run; moments are ``monotonic``."""

    tasks: list[PendingTask]
    inputs: list[Any]
    decode_s: float
    decoded: float
    handed_on: float
    steps: dict[str, float]  #: by stage: seconds


class HandedOn:
    """The items of a batch as a later service would get them in a separate process.

    They are written on demand: for a ``preprocess``, or for ``Context.requests``.
    """

    def __init__(self, items: Items, tasks: Sequence[PendingTask], values: Sequence[Any]) -> None:
        """*values* are the outputs of *tasks*, which come from *items*."""
        self._items, self._tasks, self._values = items, tasks, values

    def __getitem__(self, place: int) -> OpenItem:
        """Return the item at *place*; the body of an object that cannot be written is empty."""
        at = next(at for at, task in enumerate(self._tasks) if task.place == place)
        try:
            body, header = _body(self._values[at])
        except ServekitError:
            body, header = b"", VALUE_HEADER
        item = self._items[place]
        return Item(body, header, item.accept, item.request_id, item.deadline, item.headers)


def _takes_any(taker: Predictor) -> bool:
    return isinstance(taker.kind, AnyInput) and not taker.has_preprocess


def _handed_on(
    giver: Predictor, tasks: list[PendingTask], outputs: list[Any], answers: list[Any]
) -> tuple[list[PendingTask], list[Any]]:
    """Return the tasks that continue, with the outputs of *giver*; answer the others."""
    kept, values = [], []
    for task, output in zip(tasks, outputs, strict=True):
        if type(output) is Failed:
            answers[task.place] = output.answer
            continue
        if isinstance(output, RequestError):
            answers[task.place] = error_answer(output)
            continue
        try:
            values.append(giver.postprocess(output) if giver.postprocess else output)
            kept.append(task)
        except BaseException as error:  # noqa: BLE001 - an author's postprocess
            answers[task.place] = giver.failed("postprocess", error, [task.request_id])
    return kept, values


def _body(value: Any) -> tuple[bytes, bytes]:
    """Return *value* as the body and the content type of a request."""
    if not isinstance(value, Response):
        return codec.encode(value), VALUE_HEADER
    if value.content_type is None:
        return codec.encode(value.output), VALUE_HEADER
    return own_body(value), value.content_type.encode()


def _taken(
    predictor: Predictor,
    tasks: list[PendingTask],
    values: list[Any],
    answers: list[Any],
    now: float,
) -> tuple[list[PendingTask], list[Any]]:
    """Return the tasks that continue, and what the service of *predictor* gets for each."""
    kept, inputs = [], []
    for task, value in zip(tasks, values, strict=True):
        if task.deadline <= now:
            answers[task.place] = EXPIRED
        if answers[task.place] is not None:
            continue
        try:
            inputs.append(_input(predictor, task, value))
            kept.append(task)
        except BaseException as error:  # noqa: BLE001 - an author's preprocess may raise anything
            answers[task.place] = predictor.failed("preprocess", error, [task.request_id])
    return kept, inputs


def _input(predictor: Predictor, task: PendingTask, value: Any) -> Any:
    is_response = isinstance(value, Response)
    if predictor.has_preprocess or (is_response and value.content_type is not None):
        body, header = _body(value)
        return predictor.read(header, body, task.place)
    if is_response:
        value = value.output
    return as_declared(predictor.check, value)
