# SPDX-License-Identifier: Apache-2.0
"""What is asked: a model, the form and the size of its input. The same for every server."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from tests.benchmarks import encoding

SMALL: Final = (1.5, 2.5, 3.5, 4.5)  #: the input that every small measured request holds
MLP_INPUTS: Final = 784
MLP_MARGIN: Final = 20.0  #: between the two best classes: no rounding of a batch changes the answer
MAX_JSON_BYTES: Final = 100_000  #: of float32 elements; nobody sends more as digits
THREE_STAGES: Final = "Four numbers as JSON → their sum, in three stages: decode → infer → format"
ARRAY_SIZES: Final = (100_000, 600_000)  #: of float32 elements, as digits several times as much
SIZES: Final = {"1 KB": 1_000, "100 KB": 100_000, "602,112 B": 602_112, "10 MB": 10_000_000}

Values = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request; ``size`` counts the bytes of its float32 elements."""

    model: str  #: sum, pipeline, apart, tensors, copies, mlp, array-in or array-out
    form: str  #: json, msgpack, npy or raw
    size: int  #: of its answer, where only that is large

    @property
    def key(self) -> str:
        """``tensors-raw-602112``, as in options and JSON."""
        return f"{self.model}-{self.form}-{self.size}"

    @property
    def title(self) -> str:
        if self.model == "sum":
            return "Four numbers as JSON → their sum"
        if self.model == "pipeline":
            return THREE_STAGES
        if self.model == "apart":
            return f"{THREE_STAGES}, each in a separate process"
        if self.model == "mlp":
            return f"784 float32 as {self.form} → their class, by an MLP 784-256-10"
        if self.model == "array-in":
            return f"{self.size // 4:,} float32 as JSON → the place of the largest"
        if self.model == "array-out":
            return f"A factor and a count as JSON → {self.size // 4:,} float32 as JSON"
        title = f"{self.size:,} bytes of float32 as {self.form} → their sum"
        return f"{title}, by a service that takes bytes" if self.model == "copies" else title

    def values(self, seed: int = 0) -> Values:
        """Return an input; 0 is the one that is measured."""
        return _MAKERS[self.model](self.size // 4, seed)

    def body(self, values: Values) -> bytes:
        return encoding.ENCODERS[self.form](values)

    def expected(self, values: Values) -> float | list[float]:
        """Return the right answer; halves add up exactly, so an answer has to be equal."""
        if self.model == "array-in":
            return int(values.argmax())
        if self.model == "array-out":
            numbers: list[float] = (values[0] * _series()[: int(values[1])]).tolist()
            return numbers
        if self.model == "mlp":
            return int(np.argmax(_scores(values)))
        return float(values.sum(dtype=np.float64))


SUM: Final = Case("sum", "json", 16)
PIPELINE: Final = Case("pipeline", "json", 16)  #: where its author would put the stages
APART: Final = Case("apart", "json", 16)  #: the same, the stages in processes of their own
MLP: Final = Case("mlp", "raw", 4 * MLP_INPUTS)
PHOTO: Final = Case("tensors", "raw", 602_112)  #: a picture of 224 x 224 x 3
COPIES: Final = Case("copies", "raw", 602_112)  #: the same, copied into bytes for the service
ARRAYS: Final = tuple(
    Case(model, "json", size) for model in ("array-in", "array-out") for size in ARRAY_SIZES
)
TENSORS: Final = tuple(
    Case("tensors", form, size)
    for size in SIZES.values()
    for form in encoding.ENCODERS
    if form != "json" or size <= MAX_JSON_BYTES
)


def _small(count: int, seed: int) -> Values:
    if seed == 0:
        return np.array(SMALL, np.float32)
    source = random.Random(seed)
    return np.array([source.randrange(1000) / 2 for _ in range(count)], np.float32)


def _halves(count: int, seed: int) -> Values:
    """Return halves of 0 to 3: any order of additions of float32 gives the same sum."""
    source = np.random.default_rng(seed)
    halves = source.integers(0, 4, count, dtype=np.int8)
    return halves.astype(np.float32) * np.float32(0.5)


def _normal(count: int, seed: int) -> Values:
    return np.random.default_rng([seed, count]).standard_normal(count, np.float32)


def _factor_and_count(count: int, seed: int) -> Values:
    """Return a power of two, by which a product is exact, and the count."""
    return np.array([2.0**seed, count], np.float32)


@cache
def _series() -> Values:
    return np.random.default_rng(1).standard_normal(max(ARRAY_SIZES) // 4, np.float32)


def _clear_row(count: int, seed: int) -> Values:
    """Return a row whose best class wins by a margin."""
    source = np.random.default_rng([seed, count])
    while True:
        row: Values = source.standard_normal(count, np.float32)
        best = np.sort(_scores(row))[-2:]
        if best[1] - best[0] > MLP_MARGIN:
            return row


def _scores(row: Values) -> Values:
    hidden, last = _weights()
    scores: Values = np.maximum(row @ hidden, 0) @ last
    return scores


@cache
def _weights() -> tuple[Values, Values]:
    source = np.random.default_rng(1)
    hidden = source.standard_normal((MLP_INPUTS, 256), np.float32)
    return hidden, source.standard_normal((256, 10), np.float32)


_MAKERS: Final[dict[str, Callable[[int, int], Values]]] = {
    "sum": _small,
    "pipeline": _small,
    "apart": _small,
    "tensors": _halves,
    "copies": _halves,
    "mlp": _clear_row,
    "array-in": _normal,
    "array-out": _factor_and_count,
}
