# SPDX-License-Identifier: Apache-2.0
"""Inputs that a signature declares: checked arrays, stacked into ``[n, *shape]``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from servekit.errors import BootError, InputError
from servekit.worker.codecs.json import read_typed_json, scan
from servekit.worker.inputs.input_kind import refusal
from servekit.worker.inputs.json_arrays import LargeArrays, small_readers
from servekit.worker.inputs.stacking import Stacker
from servekit.worker.inputs.tensors import Array, TensorReader, TensorRefused

__all__ = ["SignedInput"]

#: one array for each declared input, in their order, or the lists or bytes that become one
Arrays = tuple[Any, ...]
Make = Callable[[TensorReader, Any], Array]

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class SignedInput:
    """Checks every input against the signature; a batch is a mapping of stacked arrays."""

    def __init__(self, signature: Mapping[str, Any]) -> None:
        """Compile the checks of *signature*, shaped as in ``model.toml``.

        :raises BootError: it declares no inputs, or not as ``model.toml`` does.
        """
        inputs = signature.get("inputs") if isinstance(signature, Mapping) else None
        if not isinstance(inputs, list | tuple) or not inputs:
            raise BootError("signature: has no inputs")
        self._tensors = [TensorReader(entry) for entry in inputs]
        self._names = [tensor.name for tensor in self._tensors]
        self._stackers = {each.name: Stacker(each.dtype, each.shape) for each in self._tensors}
        if len(self._stackers) != len(self._names):
            raise BootError("signature: two inputs of one name")
        self._small = small_readers(self._tensors)
        self._large = LargeArrays(self._tensors, may_be_object=True)
        #: the size of a body of raw bytes that is the whole input, whatever the bytes; -1: none is
        self._raw_bytes = self._tensors[0].raw_bytes if len(self._tensors) == 1 else -1
        self._is_fixed = all(tensor.is_fixed for tensor in self._tensors)

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

    def batches(self, inputs: Sequence[Arrays]) -> Iterable[tuple[Sequence[int] | None, Any]]:
        """Yield one stacked batch; one for each shape if the signature leaves an axis open."""
        if self._is_fixed or len(inputs) == 1:
            yield None, self._stack(inputs)
            return
        groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for place, arrays in enumerate(inputs):
            groups.setdefault(tuple(array.shape for array in arrays), []).append(place)
        if len(groups) == 1:
            yield None, self._stack(inputs)
            return
        for places in groups.values():
            yield places, self._stack([inputs[place] for place in places])

    def _stack(self, inputs: Sequence[Arrays]) -> dict[str, Array]:
        columns = zip(*inputs, strict=True)
        return {
            name: stacker.stack(column)
            for (name, stacker), column in zip(self._stackers.items(), columns, strict=True)
        }
