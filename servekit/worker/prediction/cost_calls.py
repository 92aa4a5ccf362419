# SPDX-License-Identifier: Apache-2.0
"""Batches whose inputs have a cost: no call of ``predict`` costs more than the model allows.

The front-end knows only how long bodies are, and makes batches by an estimate. Here the inputs are
known: a batch that costs too much is divided into calls, each with inputs of similar cost.
"""

from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any

from servekit.extension.envelope import Rows
from servekit.ipc.cancellation import CancelledReader
from servekit.worker.prediction.batch_result import EXPIRED, BatchResult, Failed, PendingTask
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.predictor import Predictor

__all__ = ["CostPredictor", "InputCost", "plan_by_cost"]

#: from an input, as ``predict`` gets it, to its cost: a number above 0
InputCost = Callable[[Any], float]


def plan_by_cost(costs: Sequence[float], limit: float) -> list[list[int]]:
    """Return the places of the inputs of each call of ``predict``.

    A call costs the number of its inputs times the highest of their *costs*, since shorter inputs
    are padded. An input that alone costs more than *limit* has a call for itself.
    """
    if len(costs) * max(costs) <= limit:
        return [list(range(len(costs)))]
    calls: list[list[int]] = [[]]
    for place in sorted(range(len(costs)), key=costs.__getitem__):
        if calls[-1] and (len(calls[-1]) + 1) * costs[place] > limit:
            calls.append([])
        calls[-1].append(place)
    return calls


class CostPredictor(Predictor):
    """A ``Predictor`` that divides batches by the cost of their inputs."""

    def __init__(self, *parts: Any, cost: InputCost, max_batch_cost: float, **options: Any) -> None:
        """*cost* says what an input costs, and a call costs at most *max_batch_cost*."""
        super().__init__(*parts, **options)
        self._cost_of, self._max_batch_cost = cost, max_batch_cost
        self._sizes: list[int] = []  #: inputs of each call of the last batch
        self._cost = 0.0  #: of all its inputs

    def answer(
        self,
        items: Sequence[OpenItem],
        number: int = 0,
        cancelled: CancelledReader | None = None,
        places: Sequence[int] | None = None,
    ) -> BatchResult:
        """Answer *items*; see ``Predictor.answer``. The result says what they cost."""
        self._sizes, self._cost = [], 0.0
        result = super().answer(items, number, cancelled, places)
        return result._replace(sizes=self._sizes or result.sizes, cost=self._cost)

    def predict_all(self, tasks: list[PendingTask], inputs: list[Any]) -> list[Any]:
        """Return an output, or a ``Failed``, for every task."""
        if Rows in map(type, inputs):
            return super().predict_all(tasks, inputs)
        outputs: list[Any] = [None] * len(tasks)
        costs = dict(self._costs(tasks, inputs, outputs))
        if not costs:
            return outputs
        self._cost, known = sum(costs.values()), list(costs)
        for call in plan_by_cost(list(costs.values()), self._max_batch_cost):
            self._call_predict([known[at] for at in call], tasks, inputs, outputs)
        return outputs

    def _costs(
        self, tasks: list[PendingTask], inputs: list[Any], outputs: list[Any]
    ) -> Iterable[tuple[int, float]]:
        """Yield place and cost of each of *inputs*; an input without a cost has failed."""
        for place, (task, value) in enumerate(zip(tasks, inputs, strict=True)):
            try:
                yield place, checked_cost(self._cost_of(value))
            except BaseException as error:  # noqa: BLE001 - an author's method may raise anything
                outputs[place] = Failed(self.failed("cost", error, [task.request_id]))

    def _call_predict(
        self, call: list[int], tasks: list[PendingTask], inputs: list[Any], outputs: list[Any]
    ) -> None:
        members = [tasks[place] for place in call]
        if self._sizes and all(task.deadline <= monotonic() for task in members):
            found: list[Any] = [Failed(EXPIRED)] * len(call)
        else:
            found = super().predict_all(members, [inputs[place] for place in call])
        self._sizes.append(len(call))
        for place, output in zip(call, found, strict=True):
            outputs[place] = output


def checked_cost(cost: Any) -> float:
    """Return *cost*, what the method of an author returned.

    :raises TypeError, ValueError: it is not a number above 0.
    """
    number = float(cost)
    if not number > 0:
        raise ValueError(f"the cost of an input is {cost!r}, expected a number above 0")
    return number
