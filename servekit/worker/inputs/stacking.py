# SPDX-License-Identifier: Apache-2.0
"""Stacks the arrays of a batch, in memory that is used again when nobody looks at it."""

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Stacker"]

Array = np.ndarray[Any, Any]
ARRAYS, RAW = {np.ndarray}, {bytes}
SMALLEST = 1 << 16  #: bytes; below, a fresh array is cheaper than a look at the old one


class Stacker:
    """Stacks the arrays of one input, batch after batch.

    Every array that a service gets, and every view that it makes of one, refers to the buffer
    behind it. So does whatever else looks at the memory (a memoryview, a tensor of torch). The
    count of references tells whether somebody still does; then the buffer is theirs, and the
    next batch gets another.
    """

    def __init__(self, dtype: np.dtype[Any], shape: Sequence[int] = ()) -> None:
        """Stack arrays of *dtype*.

        :param shape: of the arrays that come as bytes.
        """
        self._dtype, self._shape = dtype, shape
        self._little_endian = dtype.newbyteorder("<")
        self._buffer = np.empty(0, np.uint8)
        self._alone = self._references()

    def stack(self, values: Sequence[Any]) -> Array:
        """Return ``[n, *shape]``: one array is looked at where it lies, several are copied.

        :param values: arrays; in the place of some or of all, lists or bytes to make one of.
        """
        kinds = set(map(type, values))
        if kinds == ARRAYS:
            return self._stack_arrays(values)
        if kinds == RAW:
            return self._join(values).reshape(-1, *self._shape)
        stacked: Array = np.array([self._opened(each) for each in values], self._dtype)
        return stacked

    def _opened(self, value: Any) -> Any:
        return self._join([value]).reshape(self._shape) if type(value) is bytes else value

    def _join(self, bodies: Sequence[bytes]) -> Array:
        whole = bodies[0] if len(bodies) == 1 else bytearray().join(bodies)
        return np.frombuffer(whole, self._little_endian).astype(self._dtype, copy=False)

    def _stack_arrays(self, arrays: Sequence[Array]) -> Array:
        first = arrays[0]
        if len(arrays) == 1 and first.dtype == self._dtype:
            return first[np.newaxis]
        stacked = self._room((len(arrays), *first.shape))
        if first.ndim:
            np.concatenate(arrays, out=stacked.reshape(-1, *first.shape[1:]))
        else:
            stacked[:] = arrays
        return stacked

    def _room(self, shape: tuple[int, ...]) -> Array:
        """Return an array of *shape* that nobody else looks at."""
        size = math.prod(shape) * self._dtype.itemsize
        if size < SMALLEST or self._dtype.hasobject:
            return np.empty(shape, self._dtype)
        if size > self._buffer.nbytes:
            self._buffer = np.empty(max(size, self._grown()), np.uint8)
        elif self._references() != self._alone:
            self._buffer = np.empty(size, np.uint8)
        return self._buffer[:size].view(self._dtype).reshape(shape)

    def _grown(self) -> int:
        """Return twice the buffer, unless it was given up to a service that keeps batches."""
        return 2 * self._buffer.nbytes if self._references() == self._alone else 0

    def _references(self) -> int:
        return sys.getrefcount(self._buffer)
