# SPDX-License-Identifier: Apache-2.0
"""The output tensors of one request: from what the service returned to arrays with rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from servekit.errors import InputError, ResultNotEncodable
from servekit_oip.datatypes import BYTES
from servekit_oip.labels import top

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from servekit.extension import Codecs
    from servekit_oip.datatypes import Datatype
    from servekit_oip.signature import ModelTensor, ModelTensors
    from servekit_oip.tensors import Array

__all__ = ["OutputTensors"]

JSON: Final = "application/json"
SHOWN: Final = 80  #: characters of what a client sent, in an error


class OutputTensors:
    """Makes tensors of outputs."""

    def __init__(self, tensors: ModelTensors, codecs: Codecs, directory: Path | None) -> None:
        """Make those of *tensors*.

        :param codecs: write the outputs of a model without a signature.
        :param directory: of the model; its ``labels.txt`` names the classes.
        """
        self._tensors, self._codecs, self._directory = tensors, codecs, directory

    def check_name(self, name: str) -> None:
        """Pass if the model has the output *name*.

        :raises InputError: it has not.
        """
        if name not in self._tensors.outputs:
            known = ", ".join(self._tensors.outputs)
            raise InputError(f"unexpected output {name[:SHOWN]!r}; the model has {known}")

    def arrays(self, outputs: Sequence[Any]) -> dict[str, Array]:
        """Return an array ``[rows, *shape]`` for each output of the model.

        :param outputs: one for each row, as ``Envelope.encode`` gets them.
        :raises ResultNotEncodable: the service did not return what its signature declares.
        """
        specs = self._tensors.outputs
        if not self._tensors.gives_signature:
            (name,) = specs
            return {name: _objects([[self._text(each)] for each in outputs])}
        return {
            name: _column(spec, [_value(each, name, len(specs)) for each in outputs])
            for name, spec in specs.items()
        }

    def classes(self, name: str, array: Array, count: int) -> tuple[Datatype, Array]:
        """Return the *count* largest elements of each row of the output *name*, as BYTES.

        :raises InputError: it has no order.
        """
        if array.dtype.kind not in "iuf":
            raise InputError(f"output {name!r}: only numbers can be classified")
        return BYTES, top(array, count, self._directory)

    def datatype(self, name: str) -> Datatype:
        """Return the datatype of the output *name*."""
        return self._tensors.outputs[name].datatype

    def _text(self, output: Any) -> bytes | str:
        if isinstance(output, bytes) or (isinstance(output, str) and self._tensors.gives_text):
            return output
        return self._codecs.write(JSON, output)


def _value(output: Any, name: str, count: int) -> Any:
    """Return the value of the output *name* in one row."""
    if isinstance(output, Mapping):
        if name not in output:
            raise ResultNotEncodable(f"output: {name!r} is missing")
        return output[name]
    if count > 1:
        raise ResultNotEncodable(f"output: {type(output).__name__}, expected a mapping of {count}")
    return output


def _column(spec: ModelTensor, values: list[Any]) -> Array:
    try:
        if not spec.datatype.size:
            array = _objects(values)
        elif len(values) == 1:
            array = np.asarray(values[0])[np.newaxis]
        else:
            array = np.array(values)
        if spec.datatype.size:
            array = array.astype(spec.datatype.dtype, casting="same_kind", copy=False)
    except (TypeError, ValueError) as error:
        raise ResultNotEncodable(f"output {spec.name!r}: {error}") from error
    expected = spec.batch_shape
    fits = array.ndim == len(expected) and all(
        wanted in (-1, size) for size, wanted in zip(array.shape, expected, strict=True)
    )
    if not fits:
        raise ResultNotEncodable(f"output {spec.name!r}: {array.shape}, expected {expected}")
    return array


def _objects(values: list[Any]) -> Array:
    """Return the rows *values*, strings or lists of them, as an array of objects."""
    rows = [np.asarray(value, object) for value in values]
    column = np.empty((len(rows), *rows[0].shape), object)
    for place, row in enumerate(rows):
        column[place] = row if row.ndim else row.item()
    return column
