# SPDX-License-Identifier: Apache-2.0
"""Batches are divided into calls of ``predict`` by the cost of their inputs."""

from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit import Service
from servekit.errors import BootError
from servekit.worker.boot.input_cost import length_of
from servekit.worker.prediction import cost_calls
from servekit.worker.prediction.cost_calls import plan_by_cost
from tests.worker.batches import loaded, service_of
from tests.worker.worker_process import item


class Text(msgspec.Struct):
    text: str
    top: int = 3


@dataclass
class Pair:
    first: list[int]
    second: str


@pytest.mark.parametrize(
    ("value", "length"),
    [
        ("four", 4),
        ("", 1),
        (b"four", 4),
        ([1, 2, 3], 3),
        (7, 1),
        (None, 1),
        (np.zeros((5, 2)), 5),
        (np.float32(3), 1),
        (np.array("text"), 4),
        ({"tokens": np.zeros(6), "top": 3}, 6),
        ({}, 1),
        (Text("four"), 4),
        (Pair([1, 2], "abc"), 3),
    ],
)
def test_length_of_an_input(value, length):
    assert length_of(value) == length


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=40), st.floats(1, 500))
def test_each_input_is_in_one_call_and_no_call_costs_too_much(costs, limit):
    calls = plan_by_cost(costs, limit)

    assert sorted(place for call in calls for place in call) == list(range(len(costs)))
    for call in calls:
        assert len(call) == 1 or len(call) * max(costs[place] for place in call) <= limit


def collecting(calls):
    def predict(self, batch):
        calls.append(list(batch))
        return [each.upper() for each in batch]

    return predict


def outputs(predictor, *values, **keys):
    """Return the output or the name of the error of each of *values*, and the result."""
    result = predictor.answer([item(value, **keys) for value in values])
    found = [error or msgspec.json.decode(body)["prediction"] for error, _, body in result.answers]
    return found, result


def predictor_of(service, limit=8, cost="length"):
    return loaded(service, cost=cost, max_batch_cost=limit).predictor


def test_similar_lengths_share_a_call_and_answers_keep_their_places():
    calls = []
    predictor = predictor_of(service_of(collecting(calls)))
    found, result = outputs(predictor, "abcdefghij", "a", "bbbb", "cc", "dddd", "e")

    assert found == ["ABCDEFGHIJ", "A", "BBBB", "CC", "DDDD", "E"]
    assert calls == [["a", "e", "cc"], ["bbbb", "dddd"], ["abcdefghij"]]
    assert (result.sizes, result.cost) == ([3, 2, 1], 22)


def test_a_batch_that_fits_is_one_call_in_order_of_arrival():
    calls = []
    found, result = outputs(predictor_of(service_of(collecting(calls))), "bb", "aaa")

    assert (found, calls, result.sizes) == (["BB", "AAA"], [["bb", "aaa"]], [2])


def test_a_method_says_what_an_input_costs():
    calls = []
    service = service_of(collecting(calls), tokens=lambda self, text: text.count(" ") + 1)
    outputs(predictor_of(service, 4, "tokens"), "a b c", "d", "e f", "g h")

    assert calls == [["d", "e f"], ["g h"], ["a b c"]]


@pytest.mark.parametrize("cost", [0, -1, float("nan"), "many", None])
def test_an_input_without_a_cost_fails_alone(cost):
    service = service_of(collecting([]), tokens=lambda self, text: cost if text == "bad" else 1)
    found, result = outputs(predictor_of(service, 4, "tokens"), "ok", "bad", "fine")

    assert found == ["OK", "PredictFailed", "FINE"]
    assert result.cost == 2
    assert outputs(predictor_of(service, 4, "tokens"), "bad")[0] == ["PredictFailed"]


def test_only_the_inputs_of_a_call_that_fails_fail():
    def predict(self, batch):
        if len(batch[0]) > 4:
            raise MemoryError
        return batch

    found, _ = outputs(predictor_of(service_of(predict)), "a", "bbbbbb", "c")
    assert found == ["a", "OutOfMemory", "c"]


def test_a_call_is_not_begun_after_its_deadlines(monkeypatch):
    now = [1e9]  # later than the real clock
    monkeypatch.setattr(cost_calls, "monotonic", lambda: now[0])

    def predict(self, batch):
        now[0] += 2
        return batch

    found, _ = outputs(predictor_of(service_of(predict)), "a", "bbbbbbbb", deadline=1e9 + 1)
    assert found == ["a", "DeadlineExceeded"]


def test_stacked_arrays_are_divided_too():
    calls = []

    def predict(self, batch):
        calls.append(batch["x"].shape)
        return batch["x"].sum(axis=1)

    signature = {"inputs": [{"name": "x", "dtype": "float64", "shape": [-1]}]}
    values = [{"x": [1.0] * size} for size in (3, 4, 3, 4, 3)]
    found, _ = outputs(predictor_of(service_of(predict, signature)), *values)

    assert found == [3, 4, 3, 4, 3]
    assert calls == [(2, 3), (1, 3), (1, 4), (1, 4)]


async def coroutine(self, value):
    return value


def stream(self, value):
    yield value


@pytest.mark.parametrize(
    ("methods", "cost", "problem"),
    [
        ({}, "tokens", 'Made has no method tokens; or write "length"'),
        ({"predict": coroutine}, "length", "Made is async, and takes one input at a time"),
        (
            {"predict": Service.predict, "stream": stream},
            "length",
            "Made streams, and takes one input at a time",
        ),
    ],
)
def test_services_that_cannot_have_costs(methods, cost, problem):
    service = type("Made", (Service,), {"predict": collecting([])} | methods)()
    with pytest.raises(BootError, match=problem):
        predictor_of(service, cost=cost)
