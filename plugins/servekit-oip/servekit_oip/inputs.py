# SPDX-License-Identifier: Apache-2.0
"""The input tensors of one request: checked against the model, then made inputs of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit.errors import InputError
from servekit.extension import EncodedInput, Rows
from servekit_oip.datatypes import DATATYPES
from servekit_oip.signature import RowForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit_oip.signature import ModelTensor, ModelTensors
    from servekit_oip.tensors import Array

__all__ = ["InputTensors"]

JSON: Final = "application/json"
CONTENT: Final = "application/octet-stream"
OBJECT: Final = b"{"  #: how the JSON of a file begins
SHOWN: Final = 80  #: characters of what a client sent, in an error
LARGEST: Final = 2**63  #: no axis is so long


class InputTensors:
    """Collects the tensors of one request. ``expect`` comes before the content of each is read."""

    def __init__(self, tensors: ModelTensors) -> None:
        """Begin without any of *tensors*."""
        self._tensors = tensors
        self._arrays: dict[str, Array] = {}
        self._rows = -1

    def expect(self, name: str, datatype: str, shape: Sequence[int]) -> ModelTensor:
        """Return what the model says about an input.

        :raises InputError: it has none like that, or the request has had it already, or another
            input of the request has another number of rows.
        """
        spec = self._tensors.inputs.get(name)
        if spec is None:
            known = ", ".join(self._tensors.inputs)
            raise InputError(f"unexpected input {name[:SHOWN]!r}; the model has {known}")
        if name in self._arrays:
            raise InputError(f"input {name!r} is there twice")
        if datatype != spec.datatype.name:
            which = "is" if datatype in DATATYPES else "is not known here:"
            reason = f"datatype {which} {datatype[:SHOWN]}, expected {spec.datatype.name}"
            raise InputError(f"input {name!r}: {reason}")
        self._check_shape(spec, shape)
        return spec

    def _check_shape(self, spec: ModelTensor, shape: Sequence[int]) -> None:
        expected = spec.batch_shape
        fits = len(shape) == len(expected) and all(
            0 <= size < LARGEST and wanted in (-1, size)
            for size, wanted in zip(shape, expected, strict=True)
        )
        if not fits:
            shown = str(list(shape))[:SHOWN]
            raise InputError(f"input {spec.name!r}: shape is {shown}, expected {expected}")
        if not shape[0]:
            raise InputError(f"input {spec.name!r}: has no rows")
        if self._rows not in (-1, shape[0]):
            reason = f"{shape[0]} rows, where another input has {self._rows}"
            raise InputError(f"input {spec.name!r}: {reason}")
        self._rows = shape[0]

    def put(self, name: str, array: Array) -> None:
        """Take the content of the input *name*."""
        self._arrays[name] = array

    def inputs(self) -> list[Any]:
        """Return the inputs of the model, as ``Envelope.decode`` does.

        :raises InputError: a tensor is missing.
        """
        missing = [name for name in self._tensors.inputs if name not in self._arrays]
        if missing:
            raise InputError(f"input {missing[0]!r} is missing")
        if self._tensors.takes_signature:
            return [Rows(self._arrays, self._rows)]
        (array,) = self._arrays.values()
        elements: list[Any] = array.reshape(-1).tolist()
        form = self._tensors.input_form
        if form is RowForm.TEXT:
            return elements
        return [EncodedInput(_content_type(form, element), element) for element in elements]


def _content_type(form: RowForm, element: bytes) -> str:
    """Return the content type of *element* as the body of a request."""
    is_file = form is RowForm.FILE and not element.startswith(OBJECT)
    return CONTENT if is_file or form is RowForm.BYTES else JSON
