# SPDX-License-Identifier: Apache-2.0
"""Columns of Arrow tables as arrays of NumPy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from servekit.extension import Column

__all__ = ["ArrowColumn"]

QUOTED_CHARS: Final = 40  #: characters of an element, in an error
MAX_EMPTY: Final = 1 << 16  #: lists without elements: they take no bytes
LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
TEXTS: Final = (pa.types.is_string, pa.types.is_large_string)


class WrongElement(ValueError):
    """An element is not of the dtype that is wanted."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(f"row {place + 1}: {reason}")
        self.place, self.reason = place, reason


class ArrowColumn(Column):
    """A column of numbers, booleans, text or times, or of lists of equal lengths of these."""

    def __init__(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Become an array of *values* when its dtype is known."""
        if isinstance(values, pa.ChunkedArray):
            values = values.unify_dictionaries().combine_chunks()
        self._values = values

    def array(self, dtype: str) -> Any:
        """Return the ndarray ``[count, *shape]`` of *dtype*; numbers are wide, if they fit so.

        :raises ValueError: an element is not of *dtype*, or is missing where none can be.
        """
        values = self._values
        if pa.types.is_dictionary(values.type):
            return _of_dictionary(values, dtype)
        if _is(values, LISTS):
            return _of_lists(values, dtype)
        if dtype == "str":
            return _texts(values)
        if dtype == "bool":
            return _whole(_cast(values, pa.bool_(), dtype), dtype)
        if "float" in dtype:
            return _cast(values, pa.float64(), dtype).to_numpy(zero_copy_only=False)
        wide = pa.uint64() if dtype == "uint64" else pa.int64()
        return _whole(_cast(values, wide, dtype), dtype)


def _is(values: Any, tests: Any) -> bool:
    return any(test(values.type) for test in tests)


def _of_dictionary(values: Any, dtype: str) -> Any:
    """Return the array of *values*, of which each different one is converted once."""
    places = values.indices
    try:
        found = ArrowColumn(values.dictionary).array(dtype)
    except WrongElement as error:
        row = pc.index(places, pa.scalar(error.place, places.type)).as_py()
        raise WrongElement(max(row, 0), error.reason) from None
    if not places.null_count:
        return found[places.to_numpy()]
    if found.dtype.kind != "f":
        return _whole(places, dtype)  # says where one is missing
    taken = found[places.fill_null(0).to_numpy()]
    taken[places.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return taken


def _of_lists(values: Any, dtype: str) -> Any:
    if values.null_count:
        raise WrongElement(_first_null(values), "empty, expected a list")
    lengths = pc.unique(pc.list_value_length(values)).to_pylist()
    if len(lengths) > 1:
        raise ValueError(f"lists of {min(lengths)} to {max(lengths)} elements, expected equal ones")
    length = lengths[0] if lengths else 0
    if not length and len(values) > MAX_EMPTY:
        raise ValueError(f"{len(values)} lists without elements, limit {MAX_EMPTY}")
    try:
        inner = ArrowColumn(values.flatten()).array(dtype)
    except WrongElement as error:
        raise WrongElement(error.place // length, error.reason) from None
    return inner.reshape(len(values), length, *inner.shape[1:])


def _texts(values: Any) -> Any:
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.string())
    if not _is(values, TEXTS) and not pa.types.is_null(values.type):
        raise ValueError(f"{values.type}, expected str")
    texts = np.empty(len(values), object)
    texts[:] = _whole(values, "str").tolist()
    return texts


def _cast(values: Any, wanted: Any, dtype: str) -> Any:
    """Return *values* as *wanted*; empty text is a missing value.

    :raises ValueError: one cannot be *dtype* without a loss.
    """
    if _is(values, TEXTS):
        values = pc.utf8_trim_whitespace(values)
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
    elif not _may_become(values.type, dtype):
        raise ValueError(f"{values.type}, expected {dtype}")
    try:
        return values.cast(wanted)
    except pa.ArrowInvalid:
        place = _first_wrong(values, wanted)
        shown = str(values[place].as_py())[:QUOTED_CHARS]
        raise WrongElement(place, f"{shown!r} is not {dtype}") from None


def _may_become(found: Any, dtype: str) -> bool:
    if pa.types.is_null(found):
        return True
    if dtype == "bool":
        return bool(pa.types.is_boolean(found))
    return bool(
        pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found)
    )


def _whole(values: Any, dtype: str) -> Any:
    """Return *values*, none of which may be missing."""
    if values.null_count:
        raise WrongElement(_first_null(values), f"empty, expected {dtype}")
    return values.to_numpy(zero_copy_only=False)


def _first_null(values: Any) -> int:
    return int(pc.index(values.is_null(), True).as_py())


def _first_wrong(values: Any, wanted: Any) -> int:
    """Return the place of the first element that cannot be cast."""
    low, high = 0, len(values)  # it is in between
    while high - low > 1:
        middle = (low + high) // 2
        try:
            values[low:middle].cast(wanted)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low
