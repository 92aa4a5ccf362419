# SPDX-License-Identifier: Apache-2.0
"""The mistake in an array is found at its place, and quickly."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from servekit.worker.inputs import array_checks
from servekit.worker.inputs.array_checks import explain

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
EDGES = [e + d for b in (7, 8, 15, 16, 31, 32, 63, 64) for e in (2**b, -(2**b)) for d in (-1, 0, 1)]
ELEMENTS = (
    st.sampled_from(EDGES)
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(
        [65504.0, 65505.0, 3.4028234663852886e38, 3.5e38, 1.0, True, None, "a", [], {}]
    )
)
ROWS = st.lists(ELEMENTS, min_size=1, max_size=4)


def first_wrong(value, dtype):
    """Return the place of the first element that is no *dtype*, by looking at each."""
    for row, elements in enumerate(value):
        if not isinstance(elements, list):
            return f"[{row}]"
        if len(elements) != len(value[0]):
            return f"[{row}]"
        for column, element in enumerate(elements):
            if not array_checks._is_element(element, dtype):
                return f"[{row}][{column}]"
    return ""


@given(st.lists(ROWS, min_size=1, max_size=3), st.sampled_from((*INTEGERS, *FLOATS, "bool", "str")))
def test_the_first_wrong_element_of_lists_is_named(rows, dtype):
    rows[0][0] = [] if isinstance(rows[0][0], dict) else rows[0][0]
    if isinstance(rows[0][0], list):
        return  # of another shape
    path, _ = explain(rows, [-1, -1], dtype)

    assert path == first_wrong(rows, dtype)


@given(
    arrays.arrays(
        st.sampled_from((*INTEGERS, *FLOATS)), arrays.array_shapes(max_dims=2, max_side=3)
    ),
    st.sampled_from((*INTEGERS, *FLOATS)),
)
def test_the_first_wrong_element_of_an_array_is_named(array, dtype):
    path, message = explain(array, [-1] * array.ndim, dtype)
    flat = np.atleast_1d(array).ravel().tolist()
    wrong = [element for element in flat if not array_checks._is_element(element, dtype)]
    kinds = {array.dtype.kind, np.dtype(dtype).kind}

    if len(kinds) > 1 and kinds != {"i", "u"}:
        assert (path, message) == ("", f"dtype {array.dtype.name}, expected {dtype}")
    elif wrong:
        assert message == f"{wrong[0]!r} is not {dtype}"
        assert path.count("[") == array.ndim
    else:
        assert path == ""


@pytest.mark.parametrize("shape", [(100_000,), (100, 1000), (1000, 100), (100_000, 1)])
def test_few_elements_are_looked_at_one_by_one(monkeypatch, shape):
    looked = []
    monkeypatch.setattr(
        array_checks, "_is_element", lambda value, _dtype: looked.append(1) or value != "a"
    )
    value = np.ones(shape).tolist()
    innermost = value[-1] if len(shape) > 1 else value
    innermost[-1] = "a"

    path, _ = explain(value, [-1] * len(shape), "float32")
    assert path == "".join(f"[{size - 1}]" for size in shape)
    assert len(looked) <= 3 * array_checks.BLOCK


def test_no_list_is_made_of_an_array(monkeypatch):
    class Watched(np.ndarray):
        def tolist(self):
            raise AssertionError("the array became lists")

    for array, dtype in ((np.full((9, 1), 200, np.uint8), "int8"), (np.ones((9, 1)), "int8")):
        path, _ = explain(array.view(Watched), [-1, -1], dtype)
        assert path == ("[0][0]" if array.dtype == np.uint8 else "")
    assert explain(np.array([math.inf, 1e300]), [2], "float32") == ("[1]", "1e+300 is not float32")
