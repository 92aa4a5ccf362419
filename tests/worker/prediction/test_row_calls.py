# SPDX-License-Identifier: Apache-2.0
"""Rows of requests are divided into calls of ``predict``, and each request gets its own back."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit import InputError, Response
from servekit.extension import Rows
from servekit.worker.prediction import row_calls
from servekit.worker.prediction.objects import OBJECT, DecodedInput
from servekit.worker.prediction.row_calls import Piece, plan_calls
from servekit.worker.prediction.runs import Run
from tests.worker.batches import loaded, service_of
from tests.worker.worker_process import item

SIGNATURE = {
    "inputs": [{"name": "x", "dtype": "float64", "shape": [2]}],
    "outputs": [{"name": "y", "dtype": "float64", "shape": []}],
}
OPEN = {"inputs": [{"name": "x", "dtype": "float64", "shape": [-1]}]}


def sent(value, **keys):
    """Return an item as an envelope makes it."""
    made = item(b"", **keys)
    made.body, made.content_type, made.accept = DecodedInput(value, b""), OBJECT, OBJECT
    return made


def rows(array):
    return Rows({"x": np.asarray(array)}, len(array))


def summing(calls, result=lambda sums: {"y": sums}):
    """Return a service that adds up each row, and notes the shapes that it gets."""

    def predict(self, batch):
        calls.append(batch["x"].shape)
        return result(batch["x"].sum(axis=1))

    return service_of(predict, SIGNATURE)


def outputs(service, *items, **limits):
    """Return the output of each item, or the name of its error."""
    answers = loaded(service, **limits).predictor.answer(items).answers
    return [error or output for error, _, output in answers]


COUNTS = st.lists(st.integers(0, 20), max_size=12)


@given(COUNTS, st.integers(1, 8))
def test_calls_hold_all_rows_once_in_order_and_divide_none_but_the_longest(counts, longest):
    calls = list(plan_calls(enumerate(counts), longest))
    found = [
        (place, row) for call in calls for place, start, stop in call for row in range(start, stop)
    ]

    assert found == [(place, row) for place, count in enumerate(counts) for row in range(count)]
    assert all(0 < sum(stop - start for _, start, stop in call) <= longest for call in calls)
    for place, count in enumerate(counts):
        pieces = sum(piece.place == place for call in calls for piece in call)
        assert pieces == -(-count // longest)


def test_calls_are_planned_one_by_one():
    assert next(iter(plan_calls([(0, 2**60)], 8))) == [Piece(0, 0, 8)]


@pytest.mark.parametrize("shape", [(2**60, 0), (2**58, 0, 5), (1, 2**60, 0), (65_537, 0)])
def test_arrays_without_elements_are_not_believed(shape):
    calls, open_axes = [], [-1] * (len(shape) - 1)
    signature = {"inputs": [{"name": "x", "dtype": "float32", "shape": open_axes}]}
    hollow = np.empty(0, np.float32).reshape(shape)

    def predict(self, batch):
        calls.append(batch["x"].shape)
        return [0] * len(batch["x"])

    items = [
        sent(Rows({"x": hollow}, len(hollow))),
        sent(rows(np.ones((1,) * len(shape), np.float32))),
    ]
    items += [sent({"x": hollow[0]})] if shape[0] == 1 else []
    answers = loaded(service_of(predict, signature)).predictor.answer(items).answers

    assert [error for error, _, _ in answers] == ["InputError", "", "InputError"][: len(items)]
    told = msgspec.json.decode(answers[0][2])["detail"]
    assert f"x: shape {list(shape)} makes" in told
    assert "lists, limit 65536" in told
    assert calls == [(1,) * len(shape)]


@given(st.lists(st.none() | st.integers(1, 20), min_size=1, max_size=10), st.integers(1, 8))
def test_each_request_gets_the_outputs_of_its_rows(counts, longest):
    calls, numbers = [], iter(range(1000))
    arrays = [np.array([[next(numbers), 0.5] for _ in range(count or 1)]) for count in counts]
    items = [
        sent({"x": array[0]} if count is None else rows(array))
        for count, array in zip(counts, arrays, strict=True)
    ]
    found = outputs(summing(calls), *items, max_batch_size=longest)

    for count, array, output in zip(counts, arrays, found, strict=True):
        expected = (array[:, 0] + 0.5).tolist()
        if count is None:
            assert output == {"y": expected[0]}
        else:
            assert (output.count, output.values["y"].tolist()) == (count, expected)
    if any(counts):
        assert all(shape[0] <= longest for shape in calls)


def test_the_rows_of_one_request_are_not_copied():
    seen, array = [], np.ones((3, 2))

    def predict(self, batch):
        seen.append((batch["x"], made := batch["x"].sum(axis=1)))
        return {"y": made}

    (found,) = outputs(service_of(predict, SIGNATURE), sent(rows(array)))
    ((batch, made),) = seen

    assert np.shares_memory(batch, array)
    assert np.shares_memory(found.values["y"], made)


def test_requests_and_single_inputs_share_a_call():
    calls = []
    items = [sent(rows(np.ones((2, 2)))), item([3, 4]), item(b'{"x": [5, 6]}'), sent([7, 8])]
    found = outputs(summing(calls), *items, max_batch_size=8)

    assert calls == [(5, 2)]
    assert found[0].values["y"].tolist() == [2, 2]
    assert [msgspec.json.decode(each)["prediction"] for each in found[1:3]] == [{"y": 7}, {"y": 11}]
    assert found[3] == {"y": 15}


def test_rows_of_different_shapes_are_different_calls():
    calls = []

    def predict(self, batch):
        calls.append(batch["x"].shape)
        return batch["x"].sum(axis=1)

    shapes = [(2, 3), (1, 2), (2, 3)]
    items = [sent(rows(np.ones(shape))) for shape in shapes]
    found = outputs(service_of(predict, OPEN), *items, sent([1.0, 2.0]))

    assert calls == [(4, 3), (2, 2)]
    assert [each.values["output"].tolist() for each in found[:3]] == [[3, 3], [2], [3, 3]]
    assert found[3] == 3


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(lambda sums: {"y": sums}, {"y": [2, 4, 6]}, id="mapping"),
        pytest.param(lambda sums: {"y": sums.tolist()}, {"y": [2, 4, 6]}, id="mapping of lists"),
        pytest.param(lambda sums: sums, {"y": [2, 4, 6]}, id="array"),
        pytest.param(lambda sums: sums.tolist(), {"y": [2, 4, 6]}, id="list"),
        pytest.param(lambda sums: [{"y": each} for each in sums], {"y": [2, 4, 6]}, id="mappings"),
        pytest.param(lambda sums: [[0] * int(each) for each in sums], None, id="ragged"),
    ],
)
@pytest.mark.parametrize("longest", [2, 3])
def test_outputs_have_the_names_of_the_signature(result, expected, longest):
    items = [sent(rows([[1, 1], [2, 2], [3, 3]]))]
    (found,) = outputs(summing([], result), *items, max_batch_size=longest)

    assert found.count == 3
    if expected is None:
        assert [len(each) for each in found.values["y"]] == [2, 4, 6]
    else:
        assert {name: each.tolist() for name, each in found.values.items()} == expected
        assert found.values["y"].dtype == np.float64


def test_no_rows_are_answered_without_a_call():
    calls = []
    (found,) = outputs(summing(calls), sent(rows(np.empty((0, 2)))))

    assert (found.count, found.values["y"].shape, found.values["y"].dtype) == (0, (0,), np.float64)
    assert calls == []
    undeclared = service_of(lambda self, batch: batch["x"], OPEN)
    assert outputs(undeclared, sent(rows(np.empty((0, 2))))) == ["InputError"]


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (np.ones((2, 3)), "x: shape [2, 3], expected [-1, 2]"),
        (np.ones(2), "x: shape [2], expected [-1, 2]"),
        ([[1, 2], [3]], "x[1]: 1 element, expected 2"),
        (np.array([["a", "b"]]), "x: dtype str32, expected float64"),
    ],
)
def test_rows_that_are_not_those_of_the_signature_are_refused_alone(value, detail):
    calls = []
    bad, good = sent(Rows({"x": value}, len(value))), sent(rows([[1, 2]]))
    answers = loaded(summing(calls)).predictor.answer([bad, good]).answers

    assert msgspec.json.decode(answers[0][2])["detail"] == detail
    assert calls == [(1, 2)]


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (Rows({"x": np.ones((3, 2))}, 2), "3 rows, expected 2"),
        (Rows({}, 2), "x: missing"),
        (Rows({"x": np.ones((1, 2)), "z": np.ones(1)}, 1), "z: unknown input, expected x"),
    ],
)
def test_rows_are_as_many_as_announced(value, detail):
    ((_, _, told),) = loaded(summing([])).predictor.answer([sent(value)]).answers

    assert msgspec.json.decode(told)["detail"] == detail


def test_arrays_with_different_numbers_of_rows_are_refused():
    both = {"inputs": [{"name": n, "dtype": "int8", "shape": []} for n in ("a", "b")]}
    value = Rows({"a": np.zeros(2, "i1"), "b": np.zeros(3, "i1")}, 2)
    service = service_of(lambda self, batch: batch["a"], both)
    ((_, _, told),) = loaded(service).predictor.answer([sent(value)]).answers

    assert msgspec.json.decode(told)["detail"] == "b: 3 rows, but a has 2"


def test_a_row_that_is_refused_refuses_its_request_alone():
    def predict(self, batch):
        return [InputError("negative") if x < 0 else x for x in batch["x"][:, 0]]

    items = [sent(rows([[1, 1]])), sent(rows([[2, 2], [-1, 0]])), sent([-3, 0]), sent([4, 0])]
    found = outputs(service_of(predict, SIGNATURE), *items)

    assert found[0].values["y"].tolist() == [1]
    assert found[1:] == ["InputError", "InputError", 4]


def test_a_response_in_the_place_of_a_row_fails_its_request():
    service = summing([], lambda sums: [Response(each, 201) for each in sums])
    result = loaded(service).predictor.answer([sent(rows([[1, 1]])), item([1, 1])])

    assert [error for error, _, _ in result.answers] == ["ResultNotEncodable", ""]
    assert result.responses == {1: (201, [])}


def test_a_call_that_fails_fails_its_requests_and_the_rest_of_them_is_not_called():
    calls = []

    def predict(self, batch):
        calls.append(len(batch["x"]))
        if batch["x"][0, 0] == 1:
            raise ZeroDivisionError
        return batch["x"][:, 0]

    long, other = [[each, 0] for each in range(1, 8)], [[9, 0]]
    items = [sent(rows(long)), sent(rows(other))]
    found = outputs(service_of(predict, SIGNATURE), *items, max_batch_size=3)

    assert found[0] == "PredictFailed"
    assert found[1].values["y"].tolist() == [9]
    assert calls == [3, 1]


def test_wrong_numbers_of_outputs_fail_the_call():
    assert outputs(summing([], lambda sums: sums[1:]), sent(rows([[1, 1]]))) == ["WrongBatchLength"]


def test_names_that_change_from_call_to_call_fail_the_request():
    names = iter("yz")
    service = summing([], lambda sums: {next(names): sums})

    assert outputs(service, sent(rows(np.ones((4, 2)))), max_batch_size=2) == ["WrongBatchLength"]


def test_calls_that_would_be_late_are_not_begun(monkeypatch):
    now, begun = [1e9], []  # later than the real clock
    monkeypatch.setattr(row_calls, "monotonic", lambda: now[0])

    def predict(self, batch):
        begun.append(now[0] - 1e9)
        now[0] += 1
        return batch["x"][:, 0]

    late = sent(rows(np.ones((100, 2))), deadline=1e9 + 3.5)

    assert outputs(service_of(predict, SIGNATURE), late, max_batch_size=1) == ["DeadlineExceeded"]
    assert begun == [0, 1, 2]


def test_sizes_of_calls_are_reported_only_for_batches_with_rows():
    predictor = loaded(summing([]), max_batch_size=4).predictor
    mixed = [sent(rows(np.ones((3, 2)))), item([1, 2]), sent(rows(np.ones((2, 2))))]

    assert predictor.answer(mixed).sizes == [4, 2]
    assert predictor.answer([item([1, 2])]).sizes == []


def test_each_row_has_its_request():
    seen = []

    def predict(self, batch):
        seen.extend(each.request_id for each in predictor._current.requests())
        return batch["x"][:, 0]

    predictor = loaded(service_of(predict, SIGNATURE)).predictor
    predictor.answer([sent(rows(np.ones((2, 2))), request_id="a"), item([1, 2], request_id="b")])

    assert seen == ["a", "a", "b"]


class LeavesAtTheFirstCall:
    """A client that disconnects while the first call runs."""

    def __init__(self, calls):
        self._calls = calls

    def has_any(self, batch):
        return False

    def has(self, batch, place):
        return place == 0 and bool(self._calls)


def test_rows_of_a_client_that_has_disconnected_are_not_predicted():
    calls = []
    predictor = loaded(summing(calls), max_batch_size=2).predictor
    items = [sent(rows(np.ones((6, 2)))), sent(rows(np.ones((2, 2))))]
    answers = predictor.answer(items, 1, LeavesAtTheFirstCall(calls)).answers

    assert [error for error, _, _ in answers] == ["ClientGone", ""]
    assert calls == [(2, 2), (2, 2)]


def doubling(calls, result):
    def predict(self, batch):
        calls.append(batch["x"].shape)
        return result(batch["x"] * 2)

    return service_of(predict, {**SIGNATURE, "outputs": [{**SIGNATURE["inputs"][0], "name": "x"}]})


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(lambda doubled: {"x": doubled}, id="mapping"),
        pytest.param(lambda doubled: doubled, id="array"),
        pytest.param(list, id="list"),
        pytest.param(lambda doubled: [{"x": row} for row in doubled], id="list of mappings"),
    ],
)
def test_services_of_one_worker_pass_rows_on_as_objects(result):
    calls = []
    first, last = loaded(doubling(calls, result)).predictor, loaded(summing(calls)).predictor
    run = Run([("double", first), ("sum", last)])
    items = [sent(rows([[1, 2], [3, 4]])), sent({"x": np.array([5.0, 6.0])})]
    (_, _, found), (_, _, single) = run.answer(items).answers

    assert run.rows is last.rows
    assert found.values["y"].tolist() == [6, 14]
    assert single == {"y": 22}
    assert calls == [(3, 2), (3, 2)]


def test_rows_that_do_not_fit_the_next_service_are_refused():
    first = loaded(doubling([], lambda doubled: {"z": doubled})).predictor
    run = Run([("double", first), ("sum", loaded(summing([])).predictor)])
    ((error, _, told),) = run.answer([sent(rows([[1, 2]]))]).answers

    assert (error, msgspec.json.decode(told)["detail"][:10]) == ("InputError", "x: missing")


def test_a_service_without_a_signature_keeps_rows_out_of_a_run():
    first = loaded(doubling([], list)).predictor
    run = Run([("double", first), ("any", loaded(service_of(lambda self, b: b)).predictor)])

    assert run.rows is None
