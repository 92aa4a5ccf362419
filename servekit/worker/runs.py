# SPDX-License-Identifier: Apache-2.0
"""Stages that share a worker: a batch goes through their services, which hand objects on."""

from __future__ import annotations

from operator import itemgetter
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import InputError, ResultNotEncodable
from servekit.messages import VALUE
from servekit.response import Response
from servekit.worker.codecs.value import value as codec
from servekit.worker.current import NO_HEADERS
from servekit.worker.predictor import EXPIRED, Turn, are_plain
from servekit.worker.writing import BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit.cancelling import CancelledReader
    from servekit.worker.current import OpenItem
    from servekit.worker.predictor import Predictor, Task

__all__ = ["Run"]

VALUE_HEADER = VALUE.encode()
DEADLINE = itemgetter(4)  #: of an item


class Run:
    """Answers batches by several services, one after another; stands for a ``Predictor``.

    What one gives is what the next one gets: the object, not encoded. What fails in one of
    them skips the others, and its neighbours go on.
    """

    def __init__(self, steps: Sequence[tuple[str, Predictor]]) -> None:
        """Go through *steps*, each with the name of its stage."""
        self._predictors = [predictor for _, predictor in steps]
        self._first, self._last = self._predictors[0], self._predictors[-1]
        givers = [None, *self._predictors[:-1]]
        #: with whether what the one before gives is an input as it is
        self._steps = [
            (name, taker, giver is not None and taker.takes_any and not giver.has_postprocess)
            for (name, taker), giver in zip(steps, givers, strict=True)
        ]
        self.takes_view = self._first.takes_view

    @property
    def is_leaving(self) -> bool:
        """A service asked the process to exit."""
        return any(predictor.is_leaving for predictor in self._predictors)

    def answer(
        self,
        items: Sequence[OpenItem],
        number: int = 0,
        cancelled: CancelledReader | None = None,
        headers: Mapping[int, Mapping[str, str]] = NO_HEADERS,
        places: Sequence[int] | None = None,
    ) -> Turn:
        """Answer *items*; see ``Predictor.answer``. ``Turn.steps`` says what each stage took."""
        started = monotonic()
        first, last = self._first, self._last
        answers: list[Any] = [None] * len(items)
        batch = (number, cancelled, headers)
        first.begin(items, *batch, answers)
        tasks, inputs = first.read_items(items, places, answers, started, last.plans)
        earliest = min(map(DEADLINE, items))
        giver, outputs = None, list[Any]()
        decoded = now = monotonic()
        steps: dict[str, float] = {}
        for name, predictor, is_bare in self._steps:
            if giver is not None:
                is_bare = is_bare and now < earliest and are_plain(outputs)
                if not is_bare:
                    tasks, outputs = giver.hand_on(tasks, outputs, answers)
                giver.end()
                if predictor.begin(HandedOn(items, tasks, outputs), *batch, answers) or not is_bare:
                    tasks, inputs = _taken(predictor, tasks, outputs, answers, now)
                else:
                    inputs = [*outputs]  # a list of its own: the other one may be kept
            giver, before = predictor, now
            outputs = predictor.predict_all(tasks, inputs) if tasks else []
            now = monotonic()
            if tasks:
                steps[name] = now - before
        last.write_outputs(tasks, outputs, answers)
        last.end()
        encoded = monotonic()
        return Turn(
            answers, decoded - started, now - decoded, encoded - now, last.pop_responses(), steps
        )


class HandedOn:
    """The items of a batch as a later service would have got them in a process of its own.

    Written only for what asks: a ``preprocess``, or who looks at ``Context.requests``.
    """

    def __init__(
        self, items: Sequence[OpenItem], tasks: Sequence[Task], values: Sequence[Any]
    ) -> None:
        """*values* are those of *tasks*, which are of *items*."""
        self._items, self._tasks, self._values = items, tasks, values

    def __getitem__(self, place: int) -> OpenItem:
        """Return the item at *place*. Raises what the value codec raises."""
        at = next(at for at, task in enumerate(self._tasks) if task.place == place)
        return (*_body(self._values[at]), *self._items[place][2:])


def _body(value: Any) -> tuple[bytes, bytes]:
    """Return *value* as the body and the content type of a request."""
    if type(value) is not Response:
        return codec.encode(value), VALUE_HEADER
    if value.content_type is None:
        return codec.encode(value.output), VALUE_HEADER
    body = value.output.encode() if isinstance(value.output, str) else value.output
    if not isinstance(body, BYTES):
        raise ResultNotEncodable(f"output: {type(body).__name__}, expected bytes or a text")
    return bytes(body), value.content_type.encode()


def _taken(
    predictor: Predictor, tasks: list[Task], values: list[Any], answers: list[Any], now: float
) -> tuple[list[Task], list[Any]]:
    """Return the tasks that go on, and what the service of *predictor* gets for each."""
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


def _input(predictor: Predictor, task: Task, value: Any) -> Any:
    is_response = type(value) is Response
    if predictor.has_preprocess or (is_response and value.content_type is not None):
        body, header = _body(value)
        return predictor.read(header, body, task.place)
    if is_response:
        value = value.output
    try:
        return predictor.check(value)
    except InputError:  # of another type than it will be once it has been written
        return predictor.check(codec.decode(codec.encode(value), {}))
