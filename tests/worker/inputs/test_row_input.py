# SPDX-License-Identifier: Apache-2.0
"""Native requests with rows: arrays with a batch axis in every media type, and answers in kind."""

import io

import msgpack
import msgspec
import numpy as np
import pytest

from servekit import InputError, Response
from servekit.errors import BootError
from servekit.extension import Rows
from servekit.worker.codecs.msgpack import codec as msgpack_codec
from servekit.worker.inputs.row_input import RowInput, columns_of, cut
from tests.worker.batches import loaded, service_of
from tests.worker.prediction.test_row_calls import sent
from tests.worker.worker_process import item

SIGNATURE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": []}],
}
MANY = {
    "inputs": [
        {"name": "x", "dtype": "int8", "shape": []},
        {"name": "t", "dtype": "str", "shape": []},
    ]
}
ROWS = [[1, 2], [3, 4], [5, 6]]
ARRAY = np.array(ROWS, "<f4")


def npy(array):
    """Return the bytes of a ``.npy`` file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def summing(calls, result=lambda sums: {"y": sums}):
    def predict(self, batch):
        calls.append(batch["x"].shape)
        return result(batch["x"].sum(axis=-1))

    return service_of(predict, SIGNATURE)


def answered(service, body, content_type="application/json", accept="", **limits):
    """Return media type and body of one request, or the name and the detail of its error."""
    predictor = loaded(service, has_rows=True, **limits).predictor
    ((error, media_type, found),) = predictor.answer([item(body, content_type, accept)]).answers
    return (error, msgspec.json.decode(found)["detail"]) if error else (media_type, found)


FORM = b'--B\r\nContent-Disposition: form-data; name="x"\r\n\r\n[[1,2],[3,4],[5,6]]\r\n--B--\r\n'


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", {"x": ROWS}),
        ("application/json", ROWS),
        ("application/msgpack", msgpack.packb({"x": ROWS})),
        ("application/msgpack", msgpack_codec.encode({"x": ARRAY})),
        ("application/msgpack", msgpack_codec.encode(ARRAY)),
        ("application/x-npy", npy(ARRAY)),
        ("application/x-npy", npy(ARRAY.astype("f8"))),
        ("application/octet-stream", ARRAY.tobytes()),
        ("multipart/form-data; boundary=B", FORM),
    ],
)
@pytest.mark.parametrize("longest", [2, 8])
def test_rows_may_come_in_many_ways(content_type, body, longest):
    calls = []
    _, found = answered(summing(calls), body, content_type, max_batch_size=longest)

    assert msgspec.json.decode(found) == {"prediction": {"y": [3.0, 7.0, 11.0]}}
    assert calls == ([(2, 2), (1, 2)] if longest == 2 else [(3, 2)])


@pytest.mark.parametrize(
    ("accept", "read"),
    [
        ("application/x-npy", lambda body: np.load(io.BytesIO(body))),
        ("application/msgpack", lambda body: msgpack_codec.decode(body, {})["prediction"]["y"]),
    ],
)
def test_the_answer_is_an_array_of_rows_in_other_media_types(accept, read):
    media_type, body = answered(summing([]), ROWS, accept=accept)

    assert media_type == accept
    assert read(body).tolist() == [3, 7, 11]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(lambda sums: sums, [3, 7, 11], id="array"),
        pytest.param(lambda sums: sums.tolist(), [3, 7, 11], id="list"),
        pytest.param(lambda sums: [{"y": s} for s in sums], [{"y": s} for s in (3, 7, 11)], id="m"),
    ],
)
@pytest.mark.parametrize("longest", [2, 8])
def test_outputs_stay_what_the_service_returned(result, expected, longest):
    _, body = answered(summing([], result), ROWS, max_batch_size=longest)

    assert msgspec.json.decode(body) == {"prediction": expected}


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"x": [[1, 2, 3]]}, "x: shape [1, 3], expected [-1, 2]"),
        ([1, 2], "x: shape [2], expected [-1, 2]"),
        ([[1, 2], [3]], "x[1]: 1 element, expected 2"),
        ([[1, 2], [3, "4"]], "x[1][1]: '4' is not float32"),
        ({"z": ROWS}, "x: missing; z: unknown input, expected x"),
    ],
)
def test_what_is_not_rows_of_the_signature_is_refused(body, detail):
    assert answered(summing([]), body) == ("InputError", detail)


def test_raw_bytes_are_whole_rows():
    found = answered(summing([]), bytes(12), "application/octet-stream")

    assert found == ("InputError", "x: 12 bytes, expected a multiple of 8 (float32 [-1, 2])")


def test_all_inputs_have_as_many_rows():
    def predict(self, batch):
        return [f"{t}{x}" for x, t in zip(batch["x"], batch["t"], strict=True)]

    service = service_of(predict, MANY)

    assert answered(service, {"x": [1, 2], "t": ["a"]}) == (
        *("InputError", "t: 1 row, but x has 2"),
    )
    assert answered(service, {"x": [1, 2], "t": ["a", "b"]})[1] == b'{"prediction":["a1","b2"]}'


@pytest.mark.parametrize(
    ("body", "content_type"),
    [([], "application/json"), (npy(np.empty((0, 2))), "application/x-npy")],
)
def test_no_rows_are_answered_with_no_rows(body, content_type):
    calls = []

    assert answered(summing(calls), body, content_type)[1] == b'{"prediction":{"y":[]}}'
    assert calls == []


def test_an_error_in_the_place_of_a_row_refuses_the_request():
    service = summing([], lambda sums: [InputError("no") if s > 6 else s for s in sums])

    assert answered(service, ROWS) == ("InputError", "no")
    assert answered(service, ROWS[:1])[1] == b'{"prediction":[3.0]}'


def test_a_response_in_the_place_of_a_row_is_a_mistake_of_the_service():
    assert answered(summing([], lambda sums: [Response("a")] * len(sums)), ROWS)[0] == (
        "ResultNotEncodable"
    )


def test_single_inputs_of_protocols_join_the_rows():
    calls = []
    predictor = loaded(summing(calls), has_rows=True).predictor
    single, native = sent([5, 6]), item(ROWS)
    answers = predictor.answer([single, native]).answers

    assert calls == [(4, 2)]
    assert answers[0] == ("", "", {"y": 11})
    assert msgspec.json.decode(answers[1][2])["prediction"]["y"] == [3, 7, 11]


def test_large_json_is_read_as_fast_as_one_input():
    calls = []
    array = np.arange(6000, dtype="f4").reshape(-1, 2)
    _, body = answered(summing(calls), {"x": array.tolist()})

    assert msgspec.json.decode(body)["prediction"]["y"] == array.sum(axis=1).tolist()
    assert calls == [(3000, 2)]


def test_the_interface_describes_whole_requests():
    interface = loaded(summing([]), has_rows=True).interface
    array = interface.input_schema["anyOf"][1]

    assert interface.rows
    assert interface.signature == SIGNATURE
    assert (array["type"], array["items"]["minItems"], "minItems" in array) == ("array", 2, False)
    assert {"application/x-npy", "application/octet-stream"} <= set(interface.consumes)
    assert "application/x-npy" in interface.produces


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        (service_of(lambda self, batch: batch), "rows: the model has no signature"),
        (
            service_of(lambda self, batch: batch, SIGNATURE, preprocess=lambda self, request: 1),
            "rows: Made.preprocess is for single inputs",
        ),
        (
            service_of(lambda self, batch: batch, SIGNATURE, postprocess=lambda self, output: 1),
            "rows: Made.postprocess is for single inputs",
        ),
    ],
)
def test_services_that_cannot_have_rows_fail_the_boot(service, reason):
    with pytest.raises(BootError, match=reason):
        loaded(service, has_rows=True)


# ------------------------------------------------------------ rows of envelopes, alone


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"y": [1, 2]}, {"y": [1, 2]}),
        ({"": [1, 2]}, {"lone": [1, 2]}),
        ({"": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}, {"a": [1, 3], "b": [2, 4]}),
        ({"": [{"a": 1}, {"b": 2}]}, {"lone": [{"a": 1}, {"b": 2}]}),
        ({"": [{"a": 1}, 2]}, {"lone": [{"a": 1}, 2]}),
        ({"": []}, {"lone": []}),
    ],
)
def test_columns(values, expected):
    assert columns_of(Rows(values, 2), "lone") == expected


def test_cut():
    rows = Rows({"x": np.arange(4).reshape(2, 2), "t": ["a", "b"]}, 2)

    assert [(each["x"].tolist(), each["t"]) for each in cut(rows)] == [([0, 1], "a"), ([2, 3], "b")]
    assert cut(Rows({}, 2)) == [{}, {}]


def test_rows_are_checked_again_between_services():
    kind = RowInput(SIGNATURE["inputs"])
    found = kind.check(Rows({"": ARRAY}, 3))

    assert np.shares_memory(found.values["x"], ARRAY)
    with pytest.raises(InputError, match="x: missing"):
        kind.check(Rows({"y": ARRAY}, 3))
