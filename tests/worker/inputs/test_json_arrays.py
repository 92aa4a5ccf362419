# SPDX-License-Identifier: Apache-2.0
"""The fast ways to read arrays in JSON do the same as the slow one, to the last bit."""

import json
from typing import Annotated

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.errors import RequestError
from servekit.types import Array
from servekit.worker.codecs.json import decode_json
from servekit.worker.inputs import json_arrays
from servekit.worker.inputs.array_checks import FINITE, lists
from servekit.worker.inputs.conversion import convert
from servekit.worker.inputs.json_arrays import LargeArrays
from servekit.worker.inputs.signed_input import SignedInput
from servekit.worker.inputs.typed_input import LargeFields, TypedInput
from tests.worker.json_texts import OPEN, REFUSED, TAKEN, TOO_LARGE

DTYPES = "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "bool", "str"
SHAPES = [], [1], [3], [2, 1], [2, 2], [1, 1, 2], [0], [2, 0], [-1], [-1, 2], [2, -1], [-1, -1]
FRAMES = [
    *(b"%b", b"[%b]", b'{"x":%b}', b'{"x":[%b]}', b'{"x":[%b,1,2]}', b'{"x":[[%b,1],[2,3]]}'),
    *(b'{"x":%b,"x":[1,2,3]}', b'{"x":[1,2,3],"x":%b}', b'{"x":[1,2,3],"y":%b}', b'{"%b":[1,2,3]}'),
]


def kind_of(dtype, shape, *more):
    names = "x", *more
    return SignedInput({"inputs": [{"name": n, "dtype": dtype, "shape": shape} for n in names]})


def slow(dtype, shape):
    """Return the same kind without any of its fast ways."""
    kind = kind_of(dtype, shape)
    arrays = kind._arrays
    arrays._small = {}
    arrays._large = LargeArrays([], may_be_object=False)
    for tensor in arrays._tensors:
        tensor._decode = msgspec.json.Decoder(lists(tensor.dtype, tensor.shape)).decode
        tensor._made = tensor._from_lists
    return kind


def outcome(kind, body):
    """Return all that can be seen of what becomes of *body*."""
    try:
        ((_, batch),) = kind.batches([kind.decode_json(body)])
    except RequestError as error:
        return type(error), str(error), getattr(error, "errors", None)
    return {name: seen(array) for name, array in batch.items()}


def seen(array):
    elements = array.tolist() if array.dtype == object else array.tobytes()  # -0.0 is not 0.0
    return array.dtype, array.shape, elements


def large(dtype, shape):
    """Return a kind that takes every text for one of a large array."""
    kind = kind_of(dtype, shape)
    kind._arrays._small = {}
    return kind


@pytest.fixture(autouse=True, scope="module")
def _every_text_is_large():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_arrays, "SMALLEST", 0)
        yield


KINDS = {
    f"{dtype} {shape}": (kind_of(dtype, shape), large(dtype, shape))
    for dtype in DTYPES
    for shape in SHAPES
}
SLOW = {f"{dtype} {shape}": slow(dtype, shape) for dtype in DTYPES for shape in SHAPES}


TRIED = [f"{dtype} {shape}" for dtype in ("int8", "uint64", "float32", "bool", "str")
         for shape in ([], [3], [2, 2], [-1])]  # fmt: skip


@pytest.mark.parametrize("name", TRIED)
def test_every_text_of_the_corpus_is_read_alike(name):
    texts = [text for text in (*TAKEN, *REFUSED, *OPEN, *TOO_LARGE) if len(text) < 10_000]
    bodies = [frame.replace(b"%b", text) for frame in FRAMES for text in texts]
    right = [outcome(SLOW[name], body) for body in bodies]
    for kind in KINDS[name]:
        apart = [
            body for body, due in zip(bodies, right, strict=True) if outcome(kind, body) != due
        ]

        assert apart == []


EDGES = [
    *(65504, 65519.99, 65520, 2.0**128 - 2.0**103, 3.4028235677973362e38, 1.7976931348623157e308),
    *(127, 128, -128, -129, 255, 256, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64),
    *(0.0, -0.0, 1.0, 1e-50, 5e-324, 2**53 + 1, 0.1, 16777217),
]
NUMBERS = st.sampled_from(EDGES) | st.floats(allow_nan=False, allow_infinity=False) | st.integers()
SIGNED_NUMBERS = st.builds(lambda number, sign: number * sign, NUMBERS, st.sampled_from([1, -1]))
ELEMENTS = SIGNED_NUMBERS | st.booleans() | st.text(max_size=2) | st.none()
NESTED = st.recursive(ELEMENTS, lambda inner: st.lists(inner, max_size=3), max_leaves=12)
REGULAR = st.sampled_from([(1,), (3,), (2, 1), (2, 2), (2, 3), (1, 1, 2)]).flatmap(
    lambda shape: st.lists(
        SIGNED_NUMBERS, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))
    ).map(lambda values: np.array(values, object).reshape(shape).tolist())
)
SPACES = st.sampled_from(["", " ", "\n", "\t\r "])


@st.composite
def texts(draw):
    """Return a JSON text of an array, alone or in an object, and sometimes with a byte wrong."""
    text = json.dumps(draw(REGULAR | NESTED), ensure_ascii=draw(st.booleans()))
    text = text.replace(",", f"{draw(SPACES)},{draw(SPACES)}")
    if draw(st.booleans()):
        text = f'{{{draw(SPACES)}"x":{draw(SPACES)}{text}}}{draw(SPACES)}'
    body = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(body)))
        wrong = draw(
            st.sampled_from([b"", b",", b"]", b"[", b"1", b"-", b"e9", b".", b"\xff", b"0"])
        )
        body[at : at + draw(st.integers(0, 1))] = wrong
    return bytes(body)


@given(st.sampled_from(sorted(KINDS)), texts())
def test_any_text_is_read_alike(name, body):
    due = outcome(SLOW[name], body)

    for kind in KINDS[name]:
        assert outcome(kind, body) == due


@pytest.mark.parametrize("dtype", FINITE)
def test_the_bound_of_a_float_is_where_it_rounds_to_infinity(dtype):
    limit = FINITE[dtype]
    below = np.nextafter(limit, 0)

    with np.errstate(over="ignore"):
        assert np.isinf(np.array(limit).astype(dtype))
        assert np.isfinite(np.array(below).astype(dtype))


def test_small_arrays_of_a_batch_are_made_in_one_go():
    kind = kind_of("float32", [2, 2], "y")
    inputs = [kind.decode_json(b'{"y":[[1,2],[3,4]],"x":[[%d,0],[0,0]]}' % n) for n in range(3)]
    inputs.append(kind.check({"x": np.ones((2, 2), np.float32), "y": [[5, 6], [7, 8]]}))
    ((_, batch),) = kind.batches(inputs)

    assert inputs[0][0] == [[0.0, 0.0], [0.0, 0.0]]
    assert batch["x"][:, 0, 0].tolist() == [0, 1, 2, 1]
    assert batch["y"].dtype == np.float32
    assert batch["y"].shape == (4, 2, 2)
    assert batch["y"][3].tolist() == [[5, 6], [7, 8]]


def test_raw_bodies_of_a_batch_are_joined_with_what_comes_otherwise():
    kind = kind_of("int16", [2])
    raw = kind.check(b"\x01\x00\x02\x00")
    for inputs in ([raw], [raw, raw], [raw, kind.decode_json(b"[1,2]"), kind.check([1, 2])]):
        ((_, batch),) = kind.batches(inputs)

        assert batch["x"].dtype == np.int16
        assert batch["x"].tolist() == [[1, 2]] * len(inputs)


LARGE = np.random.default_rng(0).random((60, 50, 3), np.float32)
TEXT = json.dumps(LARGE.tolist()).encode()
needs_simdjson = pytest.mark.skipif(json_arrays._simdjson() is None, reason="no simdjson here")


@needs_simdjson
@pytest.mark.parametrize("shape", [[60, 50, 3], [-1, 50, 3], [60, -1, 3], [60, 50, -1]], ids=str)
def test_large_arrays_are_read_by_simdjson(shape):
    kind = kind_of("float32", shape)
    for body in (TEXT, b'{"x":%b}' % TEXT):
        (array,) = kind._arrays._large.read(body)

        assert array.dtype == np.float32
        assert np.array_equal(array, LARGE)


@needs_simdjson
def test_several_inputs_are_read_in_any_order():
    kind = SignedInput({"inputs": [
        {"name": "image", "dtype": "float32", "shape": [60, 50, 3]},
        {"name": "gain", "dtype": "float64", "shape": []},
        {"name": "ids", "dtype": "uint8", "shape": [-1]},
    ]})  # fmt: skip
    image, gain, ids = kind._arrays._large.read(b'{"ids":[1,255],"gain":-2,"image":%b}' % TEXT)

    assert np.array_equal(image, LARGE)
    assert (gain.dtype, gain.tolist(), ids.dtype, ids.tolist()) == ("f8", -2.0, "u1", [1, 255])
    for wrong in (b"true", b'"1"', b"null", b"[1]", b"{}"):
        assert kind._arrays._large.read(b'{"ids":[1],"gain":%b,"image":%b}' % (wrong, TEXT)) is None


@pytest.mark.parametrize("shape", [[60, 150], [50, 60, 3], [9000], [1, 60, 50, 3]], ids=str)
def test_an_array_of_another_shape_is_no_array_of_as_many_numbers(shape):
    kind = kind_of("float32", shape)

    with pytest.raises(RequestError, match=r"shape \[60, 50, 3\]"):
        kind.decode_json(TEXT)


@pytest.mark.parametrize("moved", [1, 2, 700])
def test_numbers_that_moved_to_another_row_are_no_array(moved):
    rows = [[0] * (1500 - moved), [0] * (1500 + moved)]

    with pytest.raises(RequestError, match=r"expected \[2, 1500\]|elements, expected 1500"):
        kind_of("int8", [2, 1500]).decode_json(json.dumps(rows).encode())


def test_annotated_arrays_are_read_alike():
    kind = TypedInput(Annotated[np.ndarray, Array("float32", (60, -1, 3))])

    assert np.array_equal(kind.decode_json(TEXT), LARGE)
    with pytest.raises(RequestError, match="not an array of shape"):
        kind.decode_json(b'{"x":%b}' % TEXT)
    with pytest.raises(RequestError, match="truncated"):
        kind.decode_json(TEXT[:-1])


class Picture(msgspec.Struct, forbid_unknown_fields=True):
    pixels: Annotated[np.ndarray, Array("float32", (-1, 2))] = msgspec.field(name="x")
    ids: Annotated[np.ndarray, Array("int8", (-1,))] | None = None
    name: str = ""


def shown(kind, body):
    """Return the fields of a ``Picture``, or why it is refused."""
    try:
        made = kind.decode_json(body)
    except RequestError as error:
        return type(error), str(error), getattr(error, "errors", None)
    return seen(made.pixels), made.ids is not None and seen(made.ids), made.name


PICTURES = TypedInput(Picture)
SLOW_PICTURES = TypedInput(Picture)
SLOW_PICTURES._from_json = lambda body: convert(decode_json(body), Picture)
OTHERS = [b'{"x":[[1,2]],%b}', b'{"x":[[1,2],[%b,4]]}', b'{"x":[[1,2]],"ids":%b}']


def test_every_text_of_the_corpus_is_read_alike_in_the_fields_of_a_type():
    texts = [text for text in (*TAKEN, *REFUSED, *OPEN, *TOO_LARGE) if len(text) < 10_000]
    frames = [*FRAMES, *OTHERS, b'{"x":[[1,2]],"ids":[1,%b]}', b'{"x":[[1,2]],"name":%b}']
    bodies = [frame.replace(b"%b", text) for frame in frames for text in texts]

    assert [body for body in bodies if shown(PICTURES, body) != shown(SLOW_PICTURES, body)] == []


@given(texts(), st.sampled_from([b"%b", b'{"ids":%b,"x":[[0.1,2]],"name":"n"}', *OTHERS]))
def test_any_text_is_read_alike_in_the_fields_of_a_type(text, frame):
    body = frame.replace(b"%b", text)

    assert shown(PICTURES, body) == shown(SLOW_PICTURES, body)


@needs_simdjson
def test_arrays_in_the_fields_of_a_type_are_read_by_simdjson():
    fields = LargeFields(Picture).read(b'{"name":"n","x":[[1,2],[3,4]],"ids":null}')

    assert fields["x"].dtype == np.float32
    assert (fields["x"].tolist(), fields["name"], fields["ids"]) == ([[1, 2], [3, 4]], "n", None)


def test_without_simdjson_everything_is_read_all_the_same(monkeypatch):
    monkeypatch.setattr(json_arrays, "_simdjson", lambda: None)
    (array,) = kind_of("float32", [60, 50, 3]).decode_json(TEXT)

    assert np.array_equal(array, LARGE)
