# SPDX-License-Identifier: Apache-2.0
"""Batches that hold requests with rows: the calls of ``predict``, and the outputs of each request.

A call gets whole requests, one after another, as long as their rows fit. Only a request that alone
has too many rows is divided.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from servekit.extension.envelope import Rows
from servekit.worker.inputs.signed_input import RowRange
from servekit.worker.prediction.batch_result import EXPIRED, GONE, Answered, Failed, checked_result
from servekit.worker.prediction.row_outputs import (
    first_row,
    named,
    no_rows,
    range_of,
    unnamed,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from servekit.worker.inputs.signed_input import SignedInput
    from servekit.worker.prediction.batch_result import PendingTask
    from servekit.worker.prediction.current_batch import CurrentBatch
    from servekit.worker.prediction.row_outputs import Declared

__all__ = ["MakeRowCalls", "Piece", "RowCalls", "plan_calls"]

#: where it happened, the error and the ids of the requests, to their answer
Fail = Callable[[str, BaseException, list[str]], Answered]
#: from ``predict``, and what answers requests that failed
MakeRowCalls = Callable[[Callable[[Any], Any], Fail], "RowCalls"]


class Piece(NamedTuple):
    """The rows of one input that are in one call."""

    place: int  #: the place of the input in the batch
    start: int
    stop: int


def plan_calls(counts: Iterable[tuple[int, int]], longest: int) -> Iterator[list[Piece]]:
    """Yield the pieces of each call of ``predict``, with at most *longest* rows together.

    :param counts: place and number of rows of each input, in order.
    """
    call: list[Piece] = []
    room = longest
    for place, count in counts:
        start = 0
        while start < count:
            if call and (not room or (not start and count > room)):
                yield call
                call, room = [], longest
            stop = min(count, start + room)
            call.append(Piece(place, start, stop))
            room -= stop - start
            start = stop
    if call:
        yield call


class RowCalls:
    """Predicts batches in which some inputs are ``Rows``."""

    def __init__(
        self,
        kind: SignedInput,
        current: CurrentBatch,
        outputs: Sequence[Declared],
        longest: int,
        call: Callable[[Any], Any],
        fail: Fail,
    ) -> None:
        """Prepare for inputs of *kind*.

        :param current: what the service sees of a batch.
        :param outputs: those that the signature declares.
        :param longest: rows that ``predict`` may get at once.
        :param call: ``predict``.
        :param fail: answers the requests whose call raised, or whose outputs are wrong.
        """
        self._kind, self._current, self._call, self._fail = kind, current, call, fail
        self._longest, self._outputs = longest, outputs
        self.sizes: list[int] = []  #: rows of each call of the last batch

    def predict(self, tasks: Sequence[PendingTask], inputs: Sequence[Any]) -> list[Any]:
        """Return an output or a ``Failed`` for each of *inputs*; ``Rows`` for ``Rows``.

        Calls that would end after all of their deadlines are not made: together they may take no
        longer than one ``predict``, or the front-end gives the worker up.
        """
        self.sizes, results, longest_s = [], Results(), 0.0
        for pieces in self._plan(inputs):
            if self.sizes:
                results.fail([p for p in pieces if self._has_gone(tasks[p.place])], Failed(GONE))
            pending = results.without_failed(pieces)
            began = monotonic()
            if not pending:
                continue
            if began + longest_s >= max(tasks[piece.place].deadline for piece in pending):
                results.fail(pending, Failed(EXPIRED))
                continue
            results.add(pending, self._predict(tasks, inputs, pending))
            longest_s = max(longest_s, monotonic() - began)
        return [
            self._output(tasks[place], input_, results, place)
            for place, input_ in enumerate(inputs)
        ]

    def _has_gone(self, task: PendingTask) -> bool:
        _, number, cancelled = self._current.batch
        return cancelled is not None and cancelled.has(number, task.place)

    def _plan(self, inputs: Sequence[Any]) -> Iterable[list[Piece]]:
        for places in self._kind.alike(inputs):
            counts = [(place, _count(inputs[place])) for place in places]
            yield from plan_calls(counts, self._longest)

    def _predict(
        self, tasks: Sequence[PendingTask], inputs: Sequence[Any], pieces: Sequence[Piece]
    ) -> Any:
        members = [tasks[place] for place, start, stop in pieces for _ in range(start, stop)]
        ranges = [RowRange(inputs[place], start, stop) for place, start, stop in pieces]
        self.sizes.append(len(members))
        self._current.tasks = members
        try:
            batch = self._kind.join(ranges)
            return checked_result(self._call(batch), len(members), may_be_mapping=True)
        except BaseException as error:  # noqa: BLE001 - an author's predict may raise anything
            return Failed(self._fail("predict", error, self._current.ids()))

    def _output(self, task: PendingTask, input_: Any, results: Results, place: int) -> Any:
        if place in results.failed:
            return results.failed[place]
        if type(input_) is not Rows:
            return first_row(results.parts[place][0])
        if not input_.count:
            return no_rows(self._outputs)
        try:
            return whole(results.parts[place], input_.count)
        except Exception as error:  # noqa: BLE001 - an author's outputs, or no memory to join them
            return Failed(self._fail("predict", error, [task.request_id]))

    def written(self, rows: Rows, *, is_object: bool) -> Any:
        """Return the output that *rows* are: ``Rows`` for an envelope, or as they were returned."""
        return named(rows, self._outputs) if is_object else unnamed(rows)


class Results:
    """The results of the calls for one batch, divided by the places of its inputs."""

    def __init__(self) -> None:
        self.failed: dict[int, Failed] = {}
        self.parts: dict[int, list[Any]] = {}

    def without_failed(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Return those of *pieces* whose inputs have not failed in an earlier call."""
        return [piece for piece in pieces if piece.place not in self.failed]

    def fail(self, pieces: Iterable[Piece], failed: Failed) -> None:
        """Fail the inputs of *pieces*."""
        self.failed |= {piece.place: failed for piece in pieces}

    def add(self, pieces: Iterable[Piece], result: Any) -> None:
        """Divide the *result* of a call with *pieces*."""
        if type(result) is Failed:
            self.fail(pieces, result)
            return
        at = 0
        for place, start, stop in pieces:
            end = at + stop - start
            self.parts.setdefault(place, []).append(range_of(result, at, end))
            at = end


def _count(input_: Any) -> int:
    return input_.count if type(input_) is Rows else 1
