# SPDX-License-Identifier: Apache-2.0
"""Inputs declared by a signature."""

import io

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from servekit.errors import BootError, InputError
from servekit.worker.codecs.msgpack import codec as msgpack_codec
from servekit.worker.inputs.array_checks import fits
from servekit.worker.inputs.signed_input import SignedInput
from tests.worker.batches import answer, answers, item, loaded, prediction, service_of


def inputs(**tensors):
    """Return a signature: name to ``(dtype, shape)``."""
    return {"inputs": [declared(name, *tensor) for name, tensor in tensors.items()]}


def declared(name, dtype, shape):
    """Return one entry of a signature."""
    return {"name": name, "dtype": dtype, "shape": shape}


ONE = inputs(image=("float32", [2, 2]))
MANY = inputs(x=("int8", []), t=("str", [-1]), u=("uint64", []), b=("bool", [2]))
GOOD = {"x": 1, "t": ["a", "bc"], "u": 2**64 - 1, "b": [True, False]}
ROWS = [[1, 2], [3, 4.5]]


def shape_of_batch(self, batch):
    """Answer, for every member, the dtypes and shapes of the batch."""
    shown = {name: f"{array.dtype} {list(array.shape)}" for name, array in batch.items()}
    return [shown] * len(next(iter(batch.values())))


def tried(kind, value):
    """Return the only array of *value* as lists, or why it is refused."""
    try:
        ((_, batch),) = kind.batches([kind.check(value)])
        return next(iter(batch.values())).tolist()[0]
    except InputError as error:
        return error.detail


def npy(array):
    """Return the bytes of a ``.npy`` file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


FORM = (
    b'--B\r\nContent-Disposition: form-data; name="image"; filename="i"\r\n\r\n%b\r\n--B--\r\n'
    % np.zeros((2, 2), "<f4").tobytes()
)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", msgspec.json.encode({"image": ROWS})),
        ("application/json", b"\n " + msgspec.json.encode({"image": ROWS})),
        ("application/json", msgspec.json.encode(ROWS)),
        ("application/msgpack", msgpack.packb({"image": ROWS})),
        ("application/msgpack", msgpack_codec.encode(np.ones((2, 2)))),
        ("application/msgpack", msgpack_codec.encode({"image": np.ones((2, 2), "i4")})),
        ("application/x-npy", npy(np.ones((2, 2), ">f8"))),
        ("application/octet-stream", np.ones((2, 2), "<f4").tobytes()),
        ("multipart/form-data; boundary=B", FORM),
    ],
)
def test_an_input_may_come_in_many_ways(content_type, body):
    service = service_of(shape_of_batch, ONE)

    assert prediction(service, body, content_type) == {"image": "float32 [1, 2, 2]"}


REFUSED = [
    ({"image": [[1, 2, 3], [4, 5, 6]]}, "image: shape [2, 3], expected [2, 2]"),
    ({"image": [[1, 2], [3]]}, "image[1]: 1 element, expected 2"),
    ({"image": [[1, 2], 3]}, "image[1]: 3 is not an array"),
    ({"image": [1, 2]}, "image: shape [2], expected [2, 2]"),
    ({"image": [[[1], [2]], [[3], [4]]]}, "image: shape [2, 2, 1], expected [2, 2]"),
    ({"image": 5}, "image: 5 is not an array of shape [2, 2]"),
    ({"image": None}, "image: null is not an array of shape [2, 2]"),
    ({"image": {}}, "image: an object is not an array of shape [2, 2]"),
    ({"image": [[1, 2], [3, "abc"]]}, "image[1][1]: 'abc' is not float32"),
    ({"image": [[1, 2], [3, "4"]]}, "image[1][1]: '4' is not float32"),
    ({"image": [[1, 2], [3, True]]}, "image[1][1]: true is not float32"),
    ({"image": [[1, 2], [3, None]]}, "image[1][1]: null is not float32"),
    ({"image": [[1, 2], [3, 1e300]]}, "image[1][1]: 1e+300 is not float32"),
    ({"img": ROWS}, "image: missing; img: unknown input, expected image"),
    ([], "image: shape [0], expected [2, 2]"),
]


@pytest.mark.parametrize(("value", "detail"), REFUSED)
@pytest.mark.parametrize("codec", [msgspec.json.encode, msgpack.packb], ids=["json", "msgpack"])
def test_what_is_not_the_declared_array_is_refused(value, detail, codec):
    content_type = "application/json" if codec is msgspec.json.encode else "application/msgpack"

    assert prediction(service_of(shape_of_batch, ONE), codec(value), content_type) == (
        "InputError",
        detail,
    )


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"x": 128}, "x: 128 is not int8"),
        ({"x": 1.5}, "x: 1.5 is not int8"),
        ({"x": "1"}, "x: '1' is not int8"),
        ({"x": True}, "x: true is not int8"),
        ({"x": [1]}, "x: shape [1], expected []"),
        ({"u": -1}, "u: -1 is not uint64"),
        ({"t": "abc"}, "t: 'abc' is not an array of shape [-1]"),
        ({"t": ["a", 1]}, "t[1]: 1 is not str"),
        ({"b": [True, 1]}, "b[1]: 1 is not bool"),
        (
            {"x": 1.5, "b": [True], "m": 1},
            "x: 1.5 is not int8; b: shape [1], expected [2]; m: unknown input, expected x, t, u, b",
        ),
    ],
)
def test_all_that_is_wrong_is_told_at_once(changes, detail):
    service = service_of(shape_of_batch, MANY)
    name, body = answer(service, {**GOOD, **changes})

    assert name == "InputError"
    refused = msgspec.json.decode(body)
    assert refused["detail"] == detail
    assert "; ".join(f"{e['field']}: {e['message']}" for e in refused["errors"]) == detail


def test_an_input_of_several_arrays_is_an_object():
    service = service_of(shape_of_batch, MANY)

    assert prediction(service, []) == ("InputError", "not an object with x, t, u, b")
    assert prediction(service, b"ab", "application/octet-stream")[0] == "UnknownMediaType"
    assert prediction(service, GOOD)["t"] == "object [1, 2]"


@pytest.mark.parametrize(
    ("array", "detail"),
    [
        (np.zeros((2, 2), bool), "image: dtype bool, expected float32"),
        (np.full((2, 2), 1e300), "image[0][0]: 1e+300 is not float32"),
        (np.zeros((2, 3)), "image: shape [2, 3], expected [2, 2]"),
    ],
)
def test_arrays_are_cast_only_where_numbers_stay_what_they_are(array, detail):
    found = prediction(service_of(shape_of_batch, ONE), npy(array), "application/x-npy")

    assert found == ("InputError", detail)


@pytest.mark.parametrize(
    ("dtype", "value", "is_taken"),
    [
        ("int8", np.int64(127), True),
        ("int8", np.int64(128), False),
        ("uint8", np.int8(-1), False),
        ("uint64", np.int64(5), True),
        ("int64", np.uint64(2**63), False),
        ("int64", np.float64(1), False),
        ("float16", np.float32(65504), True),
        ("float16", np.float32(70000), False),
        ("float32", np.float64("nan"), True),
        ("float32", np.float64("inf"), True),
        ("bool", np.int8(1), False),
        ("bool", np.bool_(True), True),
        ("float64", np.bool_(True), False),
        ("str", np.array("a"), True),
        ("str", np.array(1), False),
    ],
)
def test_the_casts_of_scalars(dtype, value, is_taken):
    kind = SignedInput(inputs(x=(dtype, [])))
    try:
        (array,) = kind.check({"x": value})
    except InputError:
        assert not is_taken
    else:
        assert is_taken
        assert array.dtype == (object if dtype == "str" else dtype)


@pytest.mark.parametrize(
    ("shape", "body", "expected"),
    [
        ([2], b"\1\0\2\0", [1, 2]),
        ([-1], b"\1\0\2\0\3\0", [1, 2, 3]),
        ([-1, 2], b"\1\0\2\0", [[1, 2]]),
        ([], b"\1\0", 1),
        ([2], b"\1\0\2", "x: 3 bytes, expected 4 (int16 [2])"),
        ([-1, 2], b"\1\0", "x: 2 bytes, expected a multiple of 4 (int16 [-1, 2])"),
        ([-1, -1], b"\1\0", "x: raw bytes do not determine the shape of int16 [-1, -1]"),
    ],
)
def test_raw_bytes_become_the_declared_array(shape, body, expected):
    assert tried(SignedInput(inputs(x=("int16", shape))), body) == expected


@pytest.mark.parametrize(("shape", "size"), [([2], 2), ([-1], 2), ([], 1)])
def test_raw_bytes_of_booleans_are_0_and_1(shape, size):
    kind = SignedInput(inputs(x=("bool", shape)))

    assert np.all(kind.check(b"\1" * size)[0])
    assert tried(kind, b"\2" * size) == "x: an element of dtype bool is a byte other than 0 and 1"


def test_a_batch_is_stacked_and_members_of_other_shapes_get_a_batch_of_their_own():
    calls = []

    def predict(self, batch):
        calls.append(batch["v"].shape)
        return batch["v"].sum(axis=1)

    service = service_of(predict, inputs(v=("float64", [-1])))
    vectors = [[1, 2], [3], [4, 5], [6], []]
    found = answers(service, *map(item, vectors))

    assert [msgspec.json.decode(body)["prediction"] for _, body in found] == [3, 3, 9, 6, 0]
    assert calls == [(2, 2), (2, 1), (1, 0)]


def test_a_group_that_fails_leaves_the_other_groups_alone():
    def predict(self, batch):
        if batch["v"].shape[1] == 1:
            raise ZeroDivisionError
        return list(batch["v"])

    service = service_of(predict, inputs(v=("float64", [-1])))
    found = answers(service, *map(item, [[1], [1, 2], [2]]))
    assert [name for name, _ in found] == ["PredictFailed", "application/json", "PredictFailed"]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda b: {"a": b["x"], "b": b["x"][:, None]}, {"a": 1.0, "b": [1.0]}),
        (lambda b: b["x"] > 0, True),
        (lambda b: [{"k": x} for x in b["x"]], {"k": 1.0}),
        (lambda b: {"a": b["x"][:1]}, "WrongBatchLength"),
        (lambda b: {"a": 1}, "WrongBatchLength"),
        (lambda b: {"a": ["one", "two"], "b": b["x"]}, {"a": "one", "b": 1.0}),
        (lambda b: {"a": ["one"], "b": b["x"]}, "WrongBatchLength"),
        (lambda b: {}, "WrongBatchLength"),
        (lambda b: b["x"][:1], "WrongBatchLength"),
        (lambda b: b["x"][0], "WrongBatchLength"),
    ],
)
def test_outputs_may_be_arrays_of_rows_by_name_or_not(result, expected):
    service = service_of(lambda self, batch: result(batch), inputs(x=("float32", [])))
    found = answers(service, item(1), item(2))

    if expected == "WrongBatchLength":
        assert [name for name, _ in found] == [expected] * 2
    else:
        assert msgspec.json.decode(found[0][1])["prediction"] == expected


def test_what_preprocess_returns_is_checked_too():
    service = service_of(
        shape_of_batch,
        ONE,
        preprocess=lambda self, request: {"image": [np.zeros(request.input)] * 2},
    )

    assert prediction(service, 2) == {"image": "float32 [1, 2, 2]"}
    assert prediction(service, 3) == ("InputError", "image: shape [2, 3], expected [2, 2]")


@pytest.mark.parametrize(
    "signature",
    [
        {},
        {"inputs": []},
        {"inputs": [{"name": "x"}]},
        inputs(x=("complex64", [])),
        {"inputs": inputs(x=("bool", []))["inputs"] * 2},
    ],
)
def test_signatures_that_say_nothing_sensible_fail_the_boot(signature):
    with pytest.raises(BootError, match="signature: "):
        SignedInput(signature)


def test_the_interface_of_a_signature():
    signature = {**ONE, "outputs": [{"name": "digit", "dtype": "uint8", "shape": []}]}
    interface = loaded(service_of(shape_of_batch, signature)).interface
    largest = 3.4028235e38
    number = {"type": "number", "minimum": -largest, "maximum": largest, "examples": [0]}
    row = {"type": "array", "items": number, "minItems": 2, "maxItems": 2}
    array = {"type": "array", "items": row, "minItems": 2, "maxItems": 2}

    assert interface.signature == signature
    assert interface.input_schema["anyOf"][1] == array
    byte = {"type": "integer", "minimum": 0, "maximum": 255, "examples": [0]}
    assert interface.output_schema["anyOf"][1] == byte
    assert "application/octet-stream" in interface.consumes


@pytest.mark.parametrize("shape", [[], [2], [-1, 2]], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "bool", "str"])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=6,
    )
    | arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_dims=0, max_side=3))
)
def test_any_value_is_the_declared_array_or_an_input_error(dtype, shape, value):
    found = tried(SignedInput(inputs(x=(dtype, shape))), {"x": value})
    is_refused = isinstance(found, str) and found.startswith("x")

    assert is_refused or fits(np.shape(found), shape)
