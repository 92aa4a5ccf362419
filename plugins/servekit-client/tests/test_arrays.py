# SPDX-License-Identifier: Apache-2.0
"""Values cross as they are, arrays among them, with and without numpy on the other side."""

import math
import sys

import msgpack
import numpy as np
import pytest
from servekit_client.arrays import CODES, EXTENDED, pack, unpack


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (0, 2)])
def test_an_array_comes_back_as_it_went(dtype, shape):
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    found = unpack(pack({"a": array}))["a"]

    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tolist() == array.tolist()


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (0, 2)])
def test_an_array_is_lists_where_there_is_no_numpy(monkeypatch, dtype, shape):
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    packed = pack(array)
    monkeypatch.setitem(sys.modules, "numpy", None)

    assert unpack(packed) == array.tolist()


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(np.arange(6).reshape(2, 3).T, id="in another order"),
        pytest.param(np.arange(9)[::2], id="with gaps"),
        pytest.param(np.arange(3, dtype=">i4"), id="in the other byte order"),
    ],
)
def test_an_array_may_lie_in_any_way(array):
    assert unpack(pack(array)).tolist() == array.tolist()


def test_an_array_that_came_may_be_changed():
    found = unpack(pack(np.zeros(2)))
    found[0] = 1

    assert found.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int64(-(2**63)), -(2**63)),
        (np.bool_(True), True),
        (np.array(["a", "ä"]), ["a", "ä"]),
        ((1, None, b"\xff", 2**64 - 1), [1, None, b"\xff", 2**64 - 1]),
        (math.inf, math.inf),
    ],
)
def test_what_else_may_be_sent(value, found):
    assert unpack(pack(value)) == found


@pytest.mark.parametrize(
    "value", [np.array([object()]), np.zeros(2, complex), np.array(["2020-01-01"], "M8[D]"), {1}]
)
def test_what_cannot_be_sent_is_named(value):
    with pytest.raises(TypeError, match="cannot be sent"):
        pack(value)


def array(*parts):
    return msgpack.packb(msgpack.ExtType(78, msgpack.packb(parts)))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x92\x01", id="cut short"),
        pytest.param(b"\x01\x01", id="more after the end"),
        pytest.param(msgpack.packb(msgpack.ExtType(5, b"")), id="an unknown extension"),
        pytest.param(array("O", [1], b"12345678"), id="an unknown dtype"),
        pytest.param(array("int8", [3], b"12"), id="too few elements"),
        pytest.param(array("int8", [3]), id="no elements"),
        pytest.param(array([], [3], b"123"), id="a dtype that is a list"),
        pytest.param(array("int8", [2**64 - 1], b"123"), id="a size that no memory has"),
        pytest.param(msgpack.packb(msgpack.Timestamp(2**60)), id="a time that no calendar has"),
    ],
)
@pytest.mark.parametrize("has_numpy", [True, False])
def test_what_is_no_value_is_a_value_error(monkeypatch, body, has_numpy):
    if not has_numpy:
        monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the texts are those of msgpack
        unpack(body)

    assert str(raised.value)


@pytest.mark.parametrize("dtype", EXTENDED[:3])
def test_floats_of_ml_dtypes_come_back_as_they_were(dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([[1.5, -2]], getattr(ml_dtypes, dtype))
    found = unpack(pack(array))

    assert (found.dtype, found.tobytes()) == (array.dtype, array.tobytes())
