# SPDX-License-Identifier: Apache-2.0
"""Reads the arrays that a signature declares from one body, and says everything that is wrong."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from servekit.errors import InputError
from servekit.worker.codecs.json import read_typed_json, scan
from servekit.worker.inputs.input_kind import refusal
from servekit.worker.inputs.json_arrays import LargeArrays, small_readers
from servekit.worker.inputs.tensors import Array, TensorReader, TensorRefused

__all__ = ["Arrays", "DeclaredArrays"]

#: one array for each declared input, in their order, or the lists or bytes that become one
Arrays = tuple[Any, ...]
Make = Callable[[TensorReader, Any], Array]

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class DeclaredArrays:
    """Reads a mapping of names to arrays; a single array may also stand alone."""

    def __init__(self, tensors: Sequence[TensorReader]) -> None:
        """Read an array for each of *tensors*."""
        self._tensors = tensors
        self._names = [tensor.name for tensor in tensors]
        self._small = small_readers(tensors)
        self._large = LargeArrays(tensors, may_be_object=True)
        #: the size of a body of raw bytes that is the whole input, whatever the bytes; -1: none is
        self._raw_bytes = tensors[0].raw_bytes if len(tensors) == 1 else -1

    def decode_json(self, body: bytes) -> Arrays:
        """Decode *body*, an object of inputs or the one input alone."""
        if (read := self._small.get(body[:1])) is not None:
            try:
                return read(body)
            except ValueError:  # every error of msgspec is one; the slow way says what is wrong
                pass
        arrays: Arrays = self._large.read(body) or read_typed_json(self._decode, body)
        return arrays

    def _decode(self, body: bytes) -> Arrays:
        if len(self._tensors) == 1 and body.lstrip()[:1] != b"{":
            return self._alone(body, TensorReader.from_json)
        try:
            fields = _decode_fields(body)
        except msgspec.ValidationError:
            scan(body)  # msgspec has looked at the first character only
            raise self._no_object() from None
        return self._collect(fields, TensorReader.from_json)

    def _no_object(self) -> InputError:
        return refusal([("", f"not an object with {', '.join(self._names)}")])

    def check(self, value: Any) -> Arrays:
        """Check a decoded value, a mapping of inputs or the one input alone."""
        if type(value) is bytes and len(value) == self._raw_bytes:
            return (value,)
        if isinstance(value, Mapping):
            return self._collect(value, TensorReader.from_value)
        if len(self._tensors) == 1:
            return self._alone(value, TensorReader.from_value)
        raise self._no_object()

    def _alone(self, value: Any, make: Make) -> Arrays:
        tensor = self._tensors[0]
        try:
            return (make(tensor, value),)
        except TensorRefused as error:
            raise refusal([(tensor.name + error.path, error.message)]) from None

    def _collect(self, fields: Mapping[str, Any], make: Make) -> Arrays:
        arrays, errors = [], []
        for tensor in self._tensors:
            if tensor.name not in fields:
                errors.append((tensor.name, "missing"))
                continue
            try:
                arrays.append(make(tensor, fields[tensor.name]))
            except TensorRefused as error:
                errors.append((tensor.name + error.path, error.message))
        if len(fields) > len(arrays):
            unknown = [name for name in fields if name not in self._names]
            expected = f"unknown input, expected {', '.join(self._names)}"
            errors += [(str(name)[:80], expected) for name in unknown]
        if errors:
            raise refusal(errors)
        return tuple(arrays)
