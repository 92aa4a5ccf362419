# SPDX-License-Identifier: Apache-2.0
"""One tensor: bytes and JSON in, bytes and JSON out."""

import json
import struct

import ml_dtypes  # noqa: F401 - it adds bfloat16 to NumPy
import msgspec
import numpy as np
import pytest
from servekit_oip.datatypes import CONTENT, DATATYPES
from servekit_oip.labels import top
from servekit_oip.tensors import from_buffer, from_json, from_values, to_buffer, to_texts

from servekit.errors import InputError

NUMBERS = [each for each in DATATYPES.values() if each.size]
BYTES = DATATYPES["BYTES"]
FP32 = DATATYPES["FP32"]


def packed(*elements):
    return b"".join(struct.pack("<I", len(each)) + each for each in elements)


@pytest.mark.parametrize("datatype", NUMBERS, ids=lambda each: each.name)
def test_numbers_come_back_as_they_were(datatype):
    array = np.array([[0, 1, 1], [1, 0, 1]], datatype.dtype)
    content = bytes(to_buffer(datatype, array))

    assert content == array.tobytes()
    assert np.array_equal(from_buffer("x", datatype, [2, 3], content), array)
    assert np.array_equal(from_buffer("x", datatype, [2, 3], memoryview(content)), array)


@pytest.mark.parametrize("datatype", NUMBERS, ids=lambda each: each.name)
@pytest.mark.parametrize("nested", [False, True])
def test_numbers_are_read_flat_and_nested(datatype, nested):
    array = np.array([[0, 1, 1], [1, 0, 1]], datatype.dtype)
    values = array if nested else array.reshape(-1)
    found = from_json("x", datatype, [2, 3], msgspec.Raw(json.dumps(values.tolist()).encode()))

    assert (found.dtype, found.shape) == (array.dtype, (2, 3))
    assert np.array_equal(found, array)


@pytest.mark.parametrize("name", ["FP32", "FP64", "INT64", "UINT8"])
def test_large_lists_are_read_as_small_ones(name):
    array = np.arange(4000).reshape(20, 200) % 200
    for values in (array, array.reshape(-1), array.reshape(2, -1)):
        text = msgspec.Raw(json.dumps(values.tolist()).encode())
        assert np.array_equal(from_json("x", DATATYPES[name], [20, 200], text), array)


def test_texts_come_back_as_they_were():
    texts = ["", "a\0b", "größe"]
    content = packed(*(text.encode() for text in texts))
    found = from_buffer("x", BYTES, [3, 1], content)

    assert found.tolist() == [[text] for text in texts]
    assert to_buffer(BYTES, found) == content
    assert to_texts(np.array([b"\xff", "a"], object)) == [b"\xff", b"a"]


@pytest.mark.parametrize(
    ("content", "count", "text"),
    [
        pytest.param(packed(b"a"), 2, "fewer elements", id="too few elements"),
        pytest.param(packed(b"a", b"b"), 1, "after its last", id="too many"),
        pytest.param(packed(b"abcdefgh")[:-1], 1, "longer than", id="cut"),
        pytest.param(packed(b"abcdefgh") + b"\0", 2, "ends before", id="cut within a length"),
        pytest.param(packed(b"\xff"), 1, "UTF-8", id="not a text"),
        pytest.param(b"", 2**62, "fewer elements", id="a huge shape"),
    ],
)
def test_bytes_that_are_not_texts(content, count, text):
    with pytest.raises(InputError, match=text):
        from_buffer("x", BYTES, [count], content)


@pytest.mark.parametrize("shape", [[3], [2**40, 2**40], [1, 1]])
def test_bytes_of_another_size(shape):
    with pytest.raises(InputError, match="8 bytes, expected"):
        from_buffer("x", FP32, shape, bytes(8))


@pytest.mark.parametrize(
    ("datatype", "text"),
    [
        pytest.param("INT8", "[1, 128]", id="out of range"),
        pytest.param("UINT8", "[1, -1]", id="negative"),
        pytest.param("INT32", "[1, 1.5]", id="a fraction"),
        pytest.param("UINT64", "[1, 18446744073709551616]", id="more than 64 bits"),
        pytest.param("FP32", "[1, 1e39]", id="infinite"),
        pytest.param("FP32", '[1, "2"]', id="a text"),
        pytest.param("BOOL", "[1, 0]", id="numbers as truth values"),
        pytest.param("BYTES", "[1, 2]", id="numbers as texts"),
        pytest.param("FP32", "[1]", id="too few"),
        pytest.param("FP32", "[[1, 2], 3]", id="too many"),
        pytest.param("FP32", "7", id="no list"),
        pytest.param("FP32", "[[1, [2, null]]]", id="null"),
        pytest.param("FP32", f"[{'1, ' * 4000}1e39]", id="infinite, and large"),
        pytest.param("FP64", "[1, 1e400]", id="more than 64-bit floats hold"),
        pytest.param("FP64", "[[1], [1e400]]", id="the same in nested lists"),
        pytest.param("BYTES", '["a", "\udcff"]', id="not UTF-8"),
        pytest.param("FP32", "[" * 5000, id="deep"),
    ],
)
def test_json_that_is_another_tensor(datatype, text):
    raw = msgspec.Raw(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match="'x'"):
        from_json("x", DATATYPES[datatype], [1, 2], raw)


def test_values_are_checked():
    assert from_values("x", FP32, [1, 2], (1, 2.5)).tolist() == [[1.0, 2.5]]
    with pytest.raises(InputError, match="3 elements, expected 2"):
        from_values("x", FP32, [1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="'x'"):
        from_values("x", DATATYPES["INT8"], [1, 2], [1, 128])
    with pytest.raises(InputError, match="not UTF-8"):
        from_values("x", BYTES, [1, 2], [b"a", b"\xff"])


@pytest.mark.parametrize("name", ["FP32", "FP64"])
def test_values_may_be_infinite_or_missing(name):
    values = [float("nan"), float("inf"), float("-inf")]
    found = from_values("x", DATATYPES[name], [1, 3], values)

    assert np.array_equal(found, [values], equal_nan=True)


def test_content_need_not_be_text():
    content = packed(b"\xff\xd8", b"")

    assert from_buffer("x", CONTENT, [2], content).tolist() == [b"\xff\xd8", b""]
    assert from_values("x", CONTENT, [2], [b"\xff", b"a"]).tolist() == [b"\xff", b"a"]
    for text in ('["ä", "b"]', '[["ä"], ["b"]]'):
        found = from_json("x", CONTENT, [2, 1], msgspec.Raw(text.encode()))
        assert found.tolist() == [["ä".encode()], [b"b"]]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_large_integers_are_ranked_as_they_are(dtype):
    array = np.array([[2**53, 2**53 + 1, 2**53 + 1, 0]], dtype)

    found = top(array, 4, None)[0]
    assert [int(each.split(":")[1]) for each in found] == [1, 2, 0, 3]


def test_the_largest_elements_with_their_labels(tmp_path):
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    array = np.array([[1, 5, 3], [9, 0, 9]])

    assert top(array, 2, tmp_path).tolist() == [["5:1:dog", "3:2"], ["9:0:cat", "9:2"]]
    assert top(array.astype(float), 9, None).tolist()[0] == [
        "5.000000:1",
        "3.000000:2",
        "1.000000:0",
    ]
