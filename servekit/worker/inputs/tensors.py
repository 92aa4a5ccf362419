# SPDX-License-Identifier: Apache-2.0
"""Makes one declared array from what a client sent, or says what is wrong with it."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from servekit.errors import BodyMalformed, BootError
from servekit.types.arrays import DTYPES as DECLARED
from servekit.worker.codecs.arrays import (
    DTYPES,
    SPARE_LISTS,
    Array,
    from_bytes,
    list_count,
    widened,
)
from servekit.worker.codecs.foreign_arrays import known_arrays
from servekit.worker.inputs.array_checks import (
    FINITE,
    element_dtype,
    exact_lists,
    explain,
    fits,
    kind_of,
    lists,
)
from servekit.worker.inputs.input_kind import with_whole_numbers

__all__ = ["Array", "TensorReader", "TensorRefused"]


class TensorRefused(Exception):
    """The value is not the declared array: a path below the input's name, and the reason."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path, self.message = path, message


class TensorReader:
    """Reads arrays of one dtype and shape, which leaves out the batch axis."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        """Compile the checks of one entry of ``[signature]``.

        :raises BootError: the entry is not a declaration.
        """
        try:
            self.name = str(declared["name"])
            self.dtype_name = str(declared["dtype"])
            self.shape = tuple(int(size) for size in declared["shape"])
        except (KeyError, TypeError, ValueError) as error:
            raise BootError(f"signature: {declared!r} needs name, dtype, shape") from error
        self.is_text = self.dtype_name == "str"
        if self.dtype_name not in DECLARED:
            raise BootError(f"signature: {self.name}: unknown dtype {self.dtype_name!r}")
        try:
            self.dtype = element_dtype(self.dtype_name)
        except ImportError as error:
            raise BootError(f"signature: {self.name}: {error}") from None
        self._little_endian = DTYPES.get(self.dtype_name, self.dtype)
        self._kind = kind_of(self.dtype)
        self.is_fixed = -1 not in self.shape
        self.size = math.prod(self.shape)  #: elements, if it is fixed
        #: the only size that raw bytes may have; -1 if there is none, or the bytes need a look
        self.raw_bytes = -1
        if self.is_fixed and not self.is_text and self.dtype.kind != "b":
            self.raw_bytes = self.size * self.dtype.itemsize or -1
        self._may_overflow = self.dtype_name in FINITE
        self._nested = lists(self.dtype, self.shape)
        #: a type of JSON that needs no further check; ``None`` if msgspec cannot check so much
        is_sure = self.dtype != np.uint64 and self.dtype.kind != "V"
        is_exact = is_sure and min(self.shape, default=1) > 0
        self.exact = exact_lists(self.dtype, self.shape) if is_exact else None
        self._decode = msgspec.json.Decoder(self.exact or self._nested).decode
        self._made = partial(np.array, dtype=self.dtype) if self.exact else self._from_lists

    # ------------------------------------------------------------ what a client may send

    def from_json(self, text: Any) -> Array:
        """Return the array of a JSON text, a body or a ``msgspec.Raw`` of one.

        :raises TensorRefused: it is JSON, but not the declared array.
        :raises msgspec.DecodeError: it is not JSON.
        """
        try:
            return self._shaped(self._made(self._decode(text)))
        except (ValueError, OverflowError):  # every error of msgspec is a ValueError
            return self._from_whole_floats(msgspec.json.decode(text))

    def from_value(self, value: Any) -> Array:
        """Return the array of a decoded value: an array, lists, a number, or raw bytes.

        :raises TensorRefused: it is not the declared array.
        """
        if isinstance(value, bytes | memoryview):
            return self.from_raw(value)
        try:
            if isinstance(_first(value), np.ndarray | np.generic):
                value = np.asarray(value)
                return self._shaped(self.cast(value))
            return self._shaped(self._from_lists(msgspec.convert(value, self._nested)))
        except (ValueError, OverflowError):
            known = known_arrays(value)
            return self._from_whole_floats(value) if known is value else self.from_value(known)

    def _from_whole_floats(self, value: Any) -> Array:
        """Return the array of integers if some of them are written as ``1.0``.

        :raises TensorRefused: *value* is not the declared array.
        """
        if self.dtype.kind in "iu" and isinstance(value, list | float):
            try:
                whole = msgspec.convert(with_whole_numbers(value), self._nested)
                return self._shaped(self._from_lists(whole))
            except (ValueError, OverflowError):
                pass  # the reason is given for what the client sent
        raise TensorRefused(*explain(value, self.shape, self.dtype_name))

    def from_raw(self, body: bytes | memoryview) -> Array:
        """Return the array whose little-endian elements *body* holds; one axis may be open.

        :raises TensorRefused: it has another number of bytes.
        """
        if len(body) == self.raw_bytes:
            return np.frombuffer(body, self._little_endian).reshape(self.shape)
        declared, shape = f"{self.dtype_name} {list(self.shape)}", list(self.shape)
        if self.is_text or shape.count(-1) > 1:
            raise TensorRefused("", f"raw bytes do not determine the shape of {declared}")
        row = self.dtype.itemsize * math.prod(size for size in shape if size != -1)
        if not self.is_fixed:
            shape[shape.index(-1)] = len(body) // row if row else 0
        try:
            return from_bytes(self._little_endian, shape, body)
        except BodyMalformed as error:
            if math.prod(shape) * self.dtype.itemsize == len(body):
                raise TensorRefused("", str(error).removeprefix("array: ")) from None
            needed = row if self.is_fixed else f"a multiple of {row}"
            message = f"{len(body)} bytes, expected {needed} ({declared})"
            raise TensorRefused("", message) from None

    # ------------------------------------------------------------ steps

    def _from_lists(self, values: Any) -> Array:
        if self._may_overflow:  # 1e300 is not a float32
            return _checked(np.array, values, self.dtype)
        return np.array(values, self.dtype)

    def cast(self, array: Array) -> Array:
        """Return *array* in the declared dtype; numbers keep their values.

        :raises ValueError: it is of another kind.
        :raises OverflowError: a number is out of range.
        """
        if array.dtype == self.dtype:
            return array
        if self.is_text:
            return np.array(msgspec.convert(array.tolist(), self._nested), object)
        array, kind = widened(array), kind_of(array.dtype)
        if kind not in "iuf" or self._kind not in "iuf":
            raise ValueError("another kind of element")
        if self._kind == "f":
            return _checked(array.astype, self.dtype)
        if kind == "f":
            raise ValueError("not whole numbers")
        info = np.iinfo(self.dtype_name)
        if array.size and not (info.min <= int(array.min()) and int(array.max()) <= info.max):
            raise OverflowError("out of range")
        return array.astype(self.dtype)

    def _shaped(self, array: Array) -> Array:
        if array.shape != self.shape:
            if not fits(array.shape, self.shape):
                raise ValueError("another shape")
            if not array.size:
                check_hollow(array.shape)
        return array


def check_hollow(shape: Sequence[int]) -> None:
    """Refuse an array without elements that stands for a great many lists.

    It takes no bytes: ``[2**60, 0]`` would be as many rows, and fit a signature with open axes.

    :raises TensorRefused: it does.
    """
    if (count := list_count(shape)) > SPARE_LISTS:
        shown = str(list(shape))[:80]
        raise TensorRefused("", f"shape {shown} makes {count} lists, limit {SPARE_LISTS}")


def _checked(make: Callable[..., Array], *arguments: Any) -> Array:
    """Call *make*, of numpy; raise ``OverflowError`` where it would make a number infinite."""
    *others, dtype = arguments
    if dtype.kind == "V":  # ml_dtypes does not tell
        return _narrowed(_checked(make, *others, np.dtype(np.float32)), dtype)
    with np.errstate(over="raise"):
        try:
            return make(*arguments)
        except FloatingPointError as error:
            raise OverflowError(str(error)) from None


def _narrowed(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return *array*, of float32, as *dtype*.

    :raises OverflowError: a number would become infinite.
    """
    if (np.isfinite(array) & (np.abs(array) >= FINITE[dtype.name])).any():
        raise OverflowError("out of range")
    return array.astype(dtype)


def _first(value: Any) -> Any:
    """Return *value*, or the first element of the lists it is made of."""
    while isinstance(value, list) and value:
        value = value[0]
    return value
