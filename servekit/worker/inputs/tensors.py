# SPDX-License-Identifier: Apache-2.0
"""One declared array: makes it of what a client sent, or says what is wrong with it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from servekit.errors import BodyMalformed, BootError
from servekit.worker.codecs.arrays import DTYPES, from_bytes
from servekit.worker.inputs.array_checks import explain
from servekit.worker.inputs.nesting import exact_lists, lists
from servekit.worker.inputs.whole import with_whole_numbers

__all__ = ["TensorReader", "TensorRefused"]

Array = np.ndarray[Any, Any]
STR = "str"


class TensorRefused(Exception):
    """The value is not the declared array: path below the input's name, and the reason."""

    def __init__(self, path: str, message: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.path, self.message = path, message


class TensorReader:
    """The dtype and the shape of one input, without the batch axis."""

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
        if self.dtype_name not in (*DTYPES, STR):
            raise BootError(f"signature: {self.name}: unknown dtype {self.dtype_name!r}")
        self.is_text = self.dtype_name == STR
        self.dtype = np.dtype(object if self.is_text else self.dtype_name)
        self.is_fixed = -1 not in self.shape
        self.size = math.prod(self.shape)  #: elements, if it is fixed
        self.raw_bytes = self._bytes_if_fixed()
        self._nested = lists(self.dtype, self.shape)
        self._may_overflow = self.dtype_name in ("float16", "float32")
        self.exact = exact_lists(self.dtype, self.shape)
        self._decode = msgspec.json.Decoder(self.exact or self._nested).decode
        self._made = self._exactly if self.exact else self._from_lists

    def _bytes_if_fixed(self) -> int:
        """Return the only size that raw bytes may have; -1 where there is none."""
        if self.is_text or not self.is_fixed or self.dtype.kind == "b":  # bytes to look at
            return -1
        return self.size * self.dtype.itemsize or -1

    # ------------------------------------------------------------ what a client may send

    def from_json(self, text: Any) -> Array:
        """Return the array of a JSON text, a body or a ``msgspec.Raw`` of one.

        :raises TensorRefused: it is JSON, but not the declared array.
        :raises msgspec.DecodeError: it is not JSON.
        """
        try:
            return self._shaped(self._made(self._decode(text)))
        except (ValueError, OverflowError):  # every error of msgspec is a ValueError
            return self._whole(msgspec.json.decode(text))

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
            return self._whole(value)

    def _whole(self, value: Any) -> Array:
        """Return the array of integers of which some are written as ``1.0``.

        :raises TensorRefused: *value* is not the declared array so either.
        """
        if self.dtype.kind not in "iu" or not isinstance(value, list | float):
            raise self._refused(value)
        try:
            whole = msgspec.convert(with_whole_numbers(value), self._nested)
            return self._shaped(self._from_lists(whole))
        except (ValueError, OverflowError):
            raise self._refused(value) from None

    def from_raw(self, body: bytes | memoryview) -> Array:
        """Return the array whose elements *body* holds, little-endian; one axis may be open.

        :raises TensorRefused: it has another number of bytes.
        """
        if len(body) == self.raw_bytes:
            return np.frombuffer(body, DTYPES[self.dtype_name]).reshape(self.shape)
        shape = list(self.shape)
        if self.is_text or shape.count(-1) > 1:
            raise TensorRefused("", f"raw bytes cannot say which of {self._expected()} they are")
        if not self.is_fixed:
            row = self.dtype.itemsize * int(np.prod([size for size in shape if size != -1]))
            shape[shape.index(-1)] = len(body) // row if row else 0
        try:
            return from_bytes(DTYPES[self.dtype_name], shape, body)
        except BodyMalformed as error:
            if math.prod(shape) * self.dtype.itemsize == len(body):
                raise TensorRefused("", str(error).removeprefix("array: ")) from None
            size = self.dtype.itemsize * int(np.prod(shape))
            needed = size if self.is_fixed else f"a multiple of {row}"
            expected = f"expected {needed} ({self._expected()})"
            raise TensorRefused("", f"{len(body)} bytes, {expected}") from None

    # ------------------------------------------------------------ steps

    def _exactly(self, values: Any) -> Array:
        return np.array(values, self.dtype)

    def _from_lists(self, values: Any) -> Array:
        if not self._may_overflow:
            return np.array(values, self.dtype)
        with np.errstate(over="raise"):  # 1e300 is no float32
            try:
                return np.array(values, self.dtype)
            except FloatingPointError as error:
                raise OverflowError(str(error)) from None

    def cast(self, array: Array) -> Array:
        """Return *array* in the declared dtype; numbers stay what they are.

        :raises ValueError: it is of another kind.
        :raises OverflowError: a number is out of range.
        """
        if array.dtype == self.dtype:
            return array
        if self.is_text:
            return np.array(msgspec.convert(array.tolist(), self._nested), object)
        if array.dtype.kind not in "iuf" or self.dtype.kind not in "iuf":
            raise ValueError("another kind of element")
        if array.dtype.kind == "f" and self.dtype.kind != "f":
            raise ValueError("not whole numbers")
        return self._cast_numbers(array)

    def _cast_numbers(self, array: Array) -> Array:
        if self.dtype.kind == "f":
            with np.errstate(over="raise"):
                try:
                    return array.astype(self.dtype)
                except FloatingPointError as error:
                    raise OverflowError(str(error)) from None
        info = np.iinfo(self.dtype_name)
        if array.size and not (info.min <= int(array.min()) and int(array.max()) <= info.max):
            raise OverflowError("out of range")
        return array.astype(self.dtype)

    def _shaped(self, array: Array) -> Array:
        if array.shape != self.shape and not self._fits(array.shape):
            raise ValueError("another shape")
        return array

    def _fits(self, shape: Sequence[int]) -> bool:
        return len(shape) == len(self.shape) and all(
            size == expected or expected == -1
            for size, expected in zip(shape, self.shape, strict=True)
        )

    def _expected(self) -> str:
        return f"{self.dtype_name} {list(self.shape)}"

    def _refused(self, value: Any) -> TensorRefused:
        return TensorRefused(*explain(value, self.shape, self.dtype_name))


def _first(value: Any) -> Any:
    """Return *value*, or the first element of the lists it is made of."""
    while isinstance(value, list) and value:
        value = value[0]
    return value
