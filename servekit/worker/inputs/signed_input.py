# SPDX-License-Identifier: Apache-2.0
"""Inputs that a signature declares: checked arrays, stacked into ``[n, *shape]``."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from servekit.errors import BootError
from servekit.extension.envelope import Rows
from servekit.worker.inputs.declared_arrays import Arrays, DeclaredArrays
from servekit.worker.inputs.row_input import RowInput
from servekit.worker.inputs.stacking import Stacker
from servekit.worker.inputs.tensors import Array, TensorReader

__all__ = ["RowRange", "SignedInput"]

#: the shapes of the arrays of an input, without the batch axis of rows
Shapes = tuple[tuple[int, ...], ...]


class RowRange(NamedTuple):
    """Rows of one input, from *start* to *stop*. An input without a batch axis is one row."""

    input: Arrays | Rows
    start: int
    stop: int


class SignedInput:
    """Checks every input against the signature; a batch is a mapping of stacked arrays."""

    def __init__(self, signature: Mapping[str, Any]) -> None:
        """Compile the checks of *signature*, shaped as in ``model.toml``.

        :raises BootError: it declares no inputs, or not as ``model.toml`` does.
        """
        inputs = signature.get("inputs") if isinstance(signature, Mapping) else None
        if not isinstance(inputs, list | tuple) or not inputs:
            raise BootError("signature: has no inputs")
        tensors = [TensorReader(entry) for entry in inputs]
        self._stackers = {each.name: Stacker(each.dtype, each.shape) for each in tensors}
        if len(self._stackers) != len(tensors):
            raise BootError("signature: two inputs of one name")
        self._inputs = inputs
        self._arrays = DeclaredArrays(tensors)
        self._is_fixed = all(tensor.is_fixed for tensor in tensors)
        self.decode_json = self._arrays.decode_json

    @cached_property
    def rows(self) -> RowInput:
        """Reads requests with a batch axis."""
        return RowInput(self._inputs)

    def check(self, value: Any) -> Arrays | Rows:
        """Check a decoded value: a mapping of inputs, the one input alone, or ``Rows``."""
        return self.rows.check(value) if type(value) is Rows else self._arrays.check(value)

    def batches(self, inputs: Sequence[Arrays]) -> Iterable[tuple[Sequence[int] | None, Any]]:
        """Return one stacked batch; one for each shape if the signature leaves an axis open.

        :param inputs: without ``Rows``.
        """
        if self._is_fixed or len(inputs) == 1:
            return ((None, self._stack(inputs)),)
        groups = self.alike(inputs)
        if len(groups) == 1:
            return ((None, self._stack(inputs)),)
        return ((places, self._stack([inputs[place] for place in places])) for places in groups)

    def alike(self, inputs: Sequence[Arrays | Rows]) -> list[list[int]]:
        """Return the places of *inputs* that can be stacked, in order: a list for each shape."""
        if self._is_fixed:
            return [list(range(len(inputs)))]
        groups: dict[Shapes, list[int]] = {}
        for place, input_ in enumerate(inputs):
            groups.setdefault(_shapes(input_), []).append(place)
        return list(groups.values())

    def _stack(self, inputs: Sequence[Arrays]) -> dict[str, Array]:
        if len(self._stackers) == 1:
            ((name, stacker),) = self._stackers.items()
            return {name: stacker.stack([alone for (alone,) in inputs])}
        columns = zip(*inputs, strict=True)
        return {
            name: stacker.stack(column)
            for (name, stacker), column in zip(self._stackers.items(), columns, strict=True)
        }

    def join(self, ranges: Sequence[RowRange]) -> dict[str, Array]:
        """Return one batch of *ranges*, whose inputs are alike, in their order.

        A single range is not copied.
        """
        parts: list[Mapping[str, Array]] = []
        singles: list[Arrays] = []
        for input_, start, stop in ranges:
            if not isinstance(input_, Rows):
                singles.append(input_)
                continue
            if singles:
                parts.append(self._stack(singles))
                singles = []
            parts.append({name: each[start:stop] for name, each in input_.values.items()})
        if singles:
            parts.append(self._stack(singles))
        return {
            name: stacker.join([part[name] for part in parts])
            for name, stacker in self._stackers.items()
        }


def _shapes(input_: Arrays | Rows) -> Shapes:
    if isinstance(input_, Rows):
        return tuple(array.shape[1:] for array in input_.values.values())
    return tuple(array.shape for array in input_)
