# SPDX-License-Identifier: Apache-2.0
"""Requests of protocols whose inputs have a batch axis."""

import json

import numpy as np
import pytest
from msgspec import structs

from servekit import InputError, Response
from servekit.ipc.batches import VALUES, EnvelopePart
from servekit.worker.codecs.value import values
from tests.worker.batches import service_of
from tests.worker.envelopes.test_batches import answered, call, run, sent
from tests.worker.worker_process import item

SIGNATURE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": []}],
}
TWO = {"x": [[1, 2], [3, 4]]}


def summing(shapes, signature=SIGNATURE, **steps):
    """Return a service that adds up each row, and notes the shapes that it gets."""

    def predict(self, batch):
        shapes.append(batch["x"].shape)
        return {"y": batch["x"].sum(axis=1)}

    return service_of(predict, signature, **steps)


def stacked(value):
    return sent(value, "Stacked")


def told(answer):
    """Return the body of an answer, or the detail of its error."""
    found = json.loads(answer[1])
    return found.get("detail", found) if isinstance(found, dict) else found


def test_rows_join_the_inputs_of_other_requests():
    shapes = []
    found = answered(summing(shapes), stacked(TWO), item([5, 6]), sent([[7, 8]]), stacked(TWO))

    assert shapes == [(4, 2), (2, 2)]
    assert told(found[0]) == told(found[3]) == {"count": 2, "y": [3.0, 7.0]}
    assert [told(each) for each in found[1:3]] == [{"prediction": {"y": 11.0}}, [{"y": 15.0}]]


def test_more_rows_than_a_batch_may_have_are_several_calls():
    shapes = []
    result = run(summing(shapes), stacked({"x": [[n, 0] for n in range(9)]}))
    ((_, _, body),) = result.answers

    assert [len(shape) and shape[0] for shape in shapes] == result.sizes == [4, 4, 1]
    assert json.loads(body) == {"count": 9, "y": [float(n) for n in range(9)]}


def test_wrong_shapes_are_refused_alone():
    found = answered(summing([]), stacked({"x": [[1, 2, 3]]}), stacked(TWO))

    assert found[0][0] == "InputError"
    assert told(found[0]) == "x: shape [1, 3], expected [-1, 2]"
    assert told(found[1])["count"] == 2


def upper(self, output):
    return str(output["y"])


@pytest.mark.parametrize(
    ("steps", "outputs"),
    [
        pytest.param({"postprocess": upper}, {"y": ["3.0", "7.0"]}, id="postprocess"),
        pytest.param(
            {"preprocess": lambda self, request: [2 * each for each in request.input["x"]]},
            {"y": [6.0, 14.0]},
            id="preprocess",
        ),
    ],
)
def test_methods_for_single_inputs_get_the_rows_one_by_one(steps, outputs):
    shapes = []
    (found,) = answered(summing(shapes, **steps), stacked(TWO))

    assert shapes == [(2, 2)]
    assert told(found) == {"count": 2, **outputs}


def test_services_without_a_signature_get_the_rows_one_by_one():
    def predict(self, batch):
        return [float(each["x"].sum()) for each in batch]

    (found,) = answered(service_of(predict), stacked(TWO))

    assert told(found) == {"count": 2, "output": [3.0, 7.0]}


@pytest.mark.parametrize("steps", [{}, {"postprocess": lambda self, output: output}])
def test_a_row_that_is_refused_refuses_the_request(steps):
    def predict(self, batch):
        return [InputError("too large") if row[0] > 2 else row[0] for row in batch["x"]]

    (found,) = answered(service_of(predict, SIGNATURE, **steps), stacked(TWO))

    assert (found[0], told(found)) == ("InputError", "too large")


@pytest.mark.parametrize("steps", [{}, {"postprocess": lambda self, output: output}])
def test_a_response_is_no_row(steps):
    def predict(self, batch):
        return [Response("a", 201)] * len(batch["x"])

    ((error, _),) = answered(service_of(predict, SIGNATURE, **steps), stacked(TWO))

    assert error == "ResultNotEncodable"


@pytest.mark.parametrize("steps", [{}, {"postprocess": lambda self, output: output}])
@pytest.mark.parametrize("value", [{"x": []}, {"x": np.empty((0, 2)).tolist()}])
def test_no_rows_have_no_outputs(value, steps):
    shapes = []
    (found,) = answered(summing(shapes, **steps), stacked(value))

    assert shapes == []
    assert told(found) == {"count": 0, "y": []}


def test_arrays_of_different_lengths_are_refused_before_they_are_cut():
    service = service_of(lambda self, batch: batch)
    (found,) = answered(service, stacked({"x": [1, 2], "z": [1]}))

    assert (found[0], told(found)) == ("InputError", "z: 1 row, expected 2")


def test_rows_are_cut_for_stages_in_other_workers():
    read, write = (
        structs.replace(call("Stacked"), part=part)
        for part in (EnvelopePart.READ, EnvelopePart.WRITE)
    )
    asked = item(json.dumps(TWO).encode())
    asked.protocol = read
    ((_, media_type, body),) = run(summing([]), asked).answers
    state, *inputs = values.decode(body, {})

    assert media_type == VALUES
    assert [each["x"].tolist() for each in inputs] == [[1, 2], [3, 4]]
    written = item(values.encode([state, {"y": np.float32(3)}, {"y": np.float32(7)}]))
    written.protocol = write
    assert told(answered(summing([]), written)[0]) == {"count": 2, "y": [3.0, 7.0]}


@pytest.mark.parametrize("steps", [{}, {"preprocess": lambda self, request: request.json()}])
def test_more_rows_than_the_body_can_hold_are_refused(steps):
    shapes = []
    found = answered(summing(shapes, **steps), sent({}, "Endless"))

    assert told(found[0]).startswith("1152921504606846976 rows in a body of 2 bytes, limit 65552")
    assert shapes == []


def test_more_rows_than_the_body_can_hold_do_not_reach_a_pipeline():
    request = sent({}, "Endless")
    request.protocol = structs.replace(request.protocol, part=EnvelopePart.READ)

    assert "1152921504606846976 rows" in told(answered(summing([]), request)[0])
