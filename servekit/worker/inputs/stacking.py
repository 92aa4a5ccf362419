# SPDX-License-Identifier: Apache-2.0
"""Stacks the arrays of a batch, in memory that is reused once nothing refers to it."""

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from servekit.worker.codecs.arrays import DTYPES, Array

__all__ = ["Stacker"]

ARRAYS, RAW, LISTS = {np.ndarray}, {bytes}, {list}
SMALLEST = 1 << 16  #: bytes; below, a fresh array costs less than the check of the old one


class Stacker:
    """Stacks the arrays of one input, batch after batch.

    Every array that a service gets, and every view of one, refers to the buffer behind it. So
    does a memoryview or a torch tensor of that memory. The reference count tells whether one of
    them still exists. If so, the buffer is left to it, and the next batch gets a new one.
    """

    def __init__(self, dtype: np.dtype[Any], shape: Sequence[int] = ()) -> None:
        """Stack arrays of *dtype*.

        :param shape: of the arrays that come as bytes.
        """
        self._dtype, self._shape = dtype, shape
        self._little_endian = DTYPES.get(dtype.name, dtype)
        self._buffer = np.empty(0, np.uint8)
        self._alone = self._references()

    def stack(self, values: Sequence[Any]) -> Array:
        """Return ``[n, *shape]``: a view of a single array, a copy of several.

        :param values: arrays, or the lists or bytes to make them of.
        """
        kinds = set(map(type, values))
        if kinds == LISTS:
            return np.array(values, self._dtype)
        if kinds == ARRAYS:
            return self._stack_arrays(values)
        if kinds == RAW:
            return self._join_bytes(values).reshape(-1, *self._shape)
        opened = [
            self._join_bytes([each]).reshape(self._shape) if type(each) is bytes else each
            for each in values
        ]
        return np.array(opened, self._dtype)

    def _join_bytes(self, bodies: Sequence[bytes]) -> Array:
        whole = bodies[0] if len(bodies) == 1 else bytearray().join(bodies)
        return np.frombuffer(whole, self._little_endian).astype(self._dtype, copy=False)

    def _stack_arrays(self, arrays: Sequence[Array]) -> Array:
        first = arrays[0]
        if len(arrays) == 1 and self._may_be_viewed(first):
            return first[np.newaxis]
        stacked = self._room((len(arrays), *first.shape))
        if first.ndim:
            np.concatenate(arrays, out=stacked.reshape(-1, *first.shape[1:]))
        else:
            stacked[:] = arrays
        return stacked

    def join(self, arrays: Sequence[Array]) -> Array:
        """Return ``[n, *shape]`` of arrays ``[k, *shape]``: a single array unchanged, or a copy."""
        first = arrays[0]
        if len(arrays) == 1 and self._may_be_viewed(first):
            return first
        joined = self._room((sum(map(len, arrays)), *first.shape[1:]))
        np.concatenate(arrays, out=joined)
        return joined

    def _may_be_viewed(self, array: Array) -> bool:
        """Whether *array* is as native code expects it; what a client sent may lie at any byte."""
        flags = array.flags
        return array.dtype == self._dtype and flags.aligned and flags.c_contiguous

    def _room(self, shape: tuple[int, ...]) -> Array:
        """Return an array of *shape* in memory that nothing else refers to."""
        size = math.prod(shape) * self._dtype.itemsize
        if size < SMALLEST or self._dtype.hasobject:
            return np.empty(shape, self._dtype)
        is_free = self._references() == self._alone
        if size > self._buffer.nbytes:
            grown = 2 * self._buffer.nbytes if is_free else 0  # a service may keep every batch
            self._buffer = np.empty(max(size, grown), np.uint8)
        elif not is_free:
            self._buffer = np.empty(size, np.uint8)
        return self._buffer[:size].view(self._dtype).reshape(shape)

    def _references(self) -> int:
        return sys.getrefcount(self._buffer)
