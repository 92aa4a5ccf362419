# SPDX-License-Identifier: Apache-2.0
"""Arrays and numbers of numpy as JSON: short, and the same numbers when they are read."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from servekit.errors import ResultNotEncodable
from servekit.worker.codecs.json import codec

NUMBERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "float32", "float64"]
DTYPES = st.sampled_from([*NUMBERS, *FLOATS, ">f4", ">i8", "bool"]).map(np.dtype)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
FINITE = {"allow_nan": False, "allow_infinity": False}


def is_the_same(found, array):
    """Whether the lists *found* are *array*, to the last bit."""
    made = np.array(found, array.dtype).reshape(array.shape)
    return made.tobytes() == np.ascontiguousarray(array).tobytes()


@given(arrays.arrays(DTYPES, SHAPES, elements=FINITE), st.sampled_from(["", "T", "every second"]))
def test_an_array_is_read_as_it_was_written(array, look):
    array = array.T if look == "T" else array[..., ::2] if look and array.ndim else array
    text = codec.encode({"prediction": array, "b": [array[()]]})
    found = json.loads(text)

    assert is_the_same(found["prediction"], array)
    assert is_the_same(found["b"][0], array)
    assert np.shape(found["prediction"]) == np.shape(array.tolist())


@pytest.mark.parametrize("dtype", [*NUMBERS, *FLOATS, "bool"])
def test_a_scalar_is_written_as_in_an_array(dtype):
    array = np.array([0, 1, 0.1, 100], dtype)

    assert codec.encode(array) == codec.encode(list(array))


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (np.float32(0.1), b"0.1"),
        (np.float64(0.1), b"0.1"),
        (np.float16(0.1), b"0.099975586"),
        (np.array([1 / 3, 2.5], np.float32), b"[0.33333334,2.5]"),
        (np.array([1 / 3]), b"[0.3333333333333333]"),
        (np.array([-0.0, 1], np.float32), b"[-0.0,1.0]"),
        (np.array(0.1, ">f4"), b"0.1"),
        (np.ma.array([1, 2], mask=[False, True]), b"[1,null]"),
        (np.array([[True, False]]), b"[[true,false]]"),
        ({np.int64(3): np.float32(0.5)}, b'{"3":0.5}'),
        ({np.int64(3): {"a": [np.arange(2)]}}, b'{"3":{"a":[[0,1]]}}'),
        ([{"a": np.float32(0.1), "b": None}], b'[{"a":0.1,"b":null}]'),
    ],
    ids=repr,
)
def test_texts_of_numpy(output, text):
    assert codec.encode(output) == text


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused_in_an_array(dtype, wrong):
    for output in (np.array([[1, wrong]], dtype), {"a": [np.array([wrong], dtype)[0]]}):
        with pytest.raises(ResultNotEncodable, match="NaN or infinity is not JSON"):
            codec.encode(output)


@pytest.mark.parametrize(
    "output",
    [np.array([1 + 2j]), np.longdouble("0.1"), np.array([object()]), np.zeros((1 << 21, 0), "i1")],
    ids=["complex", "long double", "any object", "lists without elements"],
)
def test_other_elements_are_refused(output):
    with pytest.raises(ResultNotEncodable):
        codec.encode(output)


def test_the_digits_of_float32_are_half_as_many():
    array = np.random.default_rng(0).random(1000, np.float32)

    assert len(codec.encode(array)) < 0.6 * len(codec.encode(array.astype(np.float64)))
