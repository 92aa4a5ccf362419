# SPDX-License-Identifier: Apache-2.0
"""Batches with requests that come by protocols: their inputs join those of all other requests."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.ipc.batches import EnvelopePart
from servekit.ipc.cancellation import CancelledReader
from servekit.worker.envelopes.plain import PlainRequests
from servekit.worker.prediction.batch_result import EXPIRED, GONE, BatchResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.worker.envelopes.opened import OpenedRequest
    from servekit.worker.envelopes.table import EnvelopeTable
    from servekit.worker.prediction.batch_result import Answered, Responses
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.prediction.methods import Methods

__all__ = ["CancelledInputs", "EnvelopedBatch"]


class CancelledInputs(CancelledReader):
    """Says which clients have disconnected, by the places of inputs."""

    __slots__ = ("_places", "_requests")

    def __init__(self, requests: CancelledReader, places: Sequence[int]) -> None:
        """Ask *requests*.

        :param places: for each input, the place of its request.
        """
        self._requests, self._places = requests, places

    def has_any(self, batch: int) -> bool:
        """Whether *batch* was the last to lose a client."""
        return self._requests.has_any(batch)

    def has(self, batch: int, place: int) -> bool:
        """Whether the client of the input at *place* in *batch* has disconnected."""
        return self._requests.has(batch, self._places[place])


class EnvelopedBatch:
    """Answers batches with requests that come by protocols; stands for a ``Predictor``."""

    def __init__(self, table: EnvelopeTable, methods: Methods, longest: int) -> None:
        """Read and write with the envelopes of *table*.

        :param longest: how many inputs *methods* get at a time.
        """
        self._table, self._methods, self._longest = table, methods, longest
        self.is_leaving = False  #: a service asked the process to exit

    def answer(
        self, items: Sequence[OpenItem], number: int, cancelled: CancelledReader | None
    ) -> BatchResult:
        """Answer *items*, in their order; see ``Predictor.answer``."""
        started = monotonic()
        plain = PlainRequests(self._table, items)
        if plain.left:
            batch = OpenedBatch(self._table, self._methods, self._longest)
            result = batch.answer(items, plain, started, number, cancelled)
            self.is_leaving |= batch.is_leaving
            return result
        read, speaker = monotonic(), self._methods.of(plain.inputs)
        result = speaker.answer(plain.inputs, number, cancelled)
        self.is_leaving |= speaker.is_leaving
        predicted = monotonic()
        heads, pieces = plain.write(result.answers)
        return BatchResult(
            result.answers,
            result.decode_s + read - started,
            result.predict_s,
            result.encode_s + monotonic() - predicted,
            result.responses | heads,
            result.steps,
            pieces,
            result.sizes,
            result.cost,
        )


class OpenedBatch:
    """A batch some of whose requests have any number of inputs.

    Each request becomes the items of its inputs, which go through the service in batches of at
    most *longest*; then its envelope writes the outputs. ``Rows`` are one item: a predictor counts
    them when it calls ``predict``.
    """

    def __init__(self, table: EnvelopeTable, methods: Methods, longest: int) -> None:
        self._table, self._methods, self._longest = table, methods, longest
        self._opened: dict[int, OpenedRequest] = {}  #: by place of the request
        self._inputs: list[OpenItem] = []
        self._places: list[int] = []  #: for each input, the place of its request
        self._sizes: list[int] = []  #: of the calls of ``predict``
        self.is_leaving = False  #: a service asked the process to exit

    def answer(
        self,
        items: Sequence[OpenItem],
        plain: PlainRequests,
        started: float,
        number: int,
        cancelled: CancelledReader | None,
    ) -> BatchResult:
        """Answer *items*, in their order; see ``Predictor.answer``.

        :param plain: those that need not be opened.
        :param started: ``monotonic``: when the reading began.
        """
        answers: list[Any] = [None] * len(items)
        for place, item in enumerate(items):
            if cancelled is not None and cancelled.has(number, place):
                answers[place] = GONE
            elif item.deadline <= started:
                answers[place] = EXPIRED
            elif (single := plain.inputs[place]) is not None:
                self._put(place, [single])
            else:
                answers[place] = self._open(place, item)
        opened = monotonic()
        result = self._predict(number, cancelled)
        predicted = monotonic()
        responses = self._gather(result, answers)
        heads, pieces = plain.write(answers)
        decode_s, predict_s, encode_s = result.times
        times = decode_s + opened - started, predict_s, encode_s + monotonic() - predicted
        for place, each in self._opened.items():
            if each.response is not None:
                heads[place] = each.response
            if each.pieces is not None:
                pieces[place] = each.pieces
        responses |= heads
        return BatchResult(answers, *times, responses, result.steps, pieces, self._sizes)

    def _open(self, place: int, item: OpenItem) -> Answered | None:
        """Take the inputs of *item*, or return its answer if it has none."""
        assert item.protocol is not None
        try:
            request = self._opened[place] = self._table.open(item)
            if item.protocol.part is EnvelopePart.READ:
                return request.inputs()
            if item.protocol.part is EnvelopePart.WRITE:
                return request.answer(request.outputs())
            found = self._methods.find(item.calls)
            self._put(place, request.items(takes_rows=found is not None and found.rows is not None))
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
            return self._table.failed(item, error)
        return None

    def _put(self, place: int, inputs: Sequence[OpenItem]) -> None:
        self._inputs += inputs
        self._places += [place] * len(inputs)

    def _predict(self, number: int, cancelled: CancelledReader | None) -> BatchResult:
        """Return an answer for each input.

        Batches that would end after the deadlines of their inputs are not begun: together they may
        take no longer than one ``predict``, or the front-end gives the worker up.
        """
        results, longest_s = list[BatchResult](), 0.0
        for start in range(0, len(self._inputs), self._longest):
            inputs = self._inputs[start : start + self._longest]
            began = monotonic()
            if began + longest_s >= max(item.deadline for item in inputs):
                results.append(BatchResult([EXPIRED] * len(inputs), 0.0, 0.0, 0.0, {}))
                continue
            places = self._places[start : start + self._longest]
            gone = None if cancelled is None else CancelledInputs(cancelled, places)
            speaker = self._methods.of(inputs)
            results.append(result := speaker.answer(inputs, number, gone))
            self._sizes += result.sizes or [len(inputs)]
            self.is_leaving |= speaker.is_leaving
            longest_s = max(longest_s, monotonic() - began)
        return _joined(results)

    def _gather(self, result: BatchResult, answers: list[Any]) -> Responses:
        """Put the answer of each request into *answers*."""
        responses: Responses = {}
        outputs: dict[int, list[Any]] = {place: [] for place in self._opened}
        for at, (place, answer) in enumerate(zip(self._places, result.answers, strict=True)):
            if place not in outputs:
                answers[place] = answer
                if at in result.responses:
                    responses[place] = result.responses[at]
            elif answer[0]:
                answers[place] = answers[place] or answer  # the first one refuses the request
            else:
                outputs[place].append(answer[2])
        for place, request in self._opened.items():
            answers[place] = answers[place] or request.answer(outputs[place])
        return responses


def _joined(results: Sequence[BatchResult]) -> BatchResult:
    """Return the answers of all *results* as those of one batch."""
    if len(results) == 1:
        return results[0]
    answers: list[Answered] = []
    responses: Responses = {}
    steps: dict[str, float] = {}
    for result in results:
        responses |= {len(answers) + at: own for at, own in result.responses.items()}
        answers += result.answers
        for name, step_s in result.steps.items():
            steps[name] = steps.get(name, 0.0) + step_s
    decode_s = sum(result.decode_s for result in results)
    predict_s = sum(result.predict_s for result in results)
    encode_s = sum(result.encode_s for result in results)
    return BatchResult(answers, decode_s, predict_s, encode_s, responses, steps)
