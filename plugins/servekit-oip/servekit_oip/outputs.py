# SPDX-License-Identifier: Apache-2.0
"""The output tensors of one request: from what the service returned to arrays with rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from servekit.errors import InputError, ResultNotEncodable
from servekit.extension import Rows
from servekit_oip.datatypes import BYTES
from servekit_oip.labels import top
from servekit_oip.signature import OUTPUT, RowForm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from servekit.extension import Codecs
    from servekit_oip.datatypes import Datatype
    from servekit_oip.signature import ModelTensor, ModelTensors
    from servekit_oip.tensors import Array

__all__ = ["OutputTensors"]

JSON: Final = "application/json"
UNORDERED: Final = ("BOOL", "BYTES")  #: datatypes whose elements cannot be classified
SHOWN: Final = 80  #: characters of what a client sent, in an error


class OutputTensors:
    """Makes tensors of outputs."""

    def __init__(self, tensors: ModelTensors, codecs: Codecs, directory: Path | None) -> None:
        """Make those of *tensors*.

        :param codecs: write the outputs of a model without a signature.
        :param directory: of the model; its ``labels.txt`` names the classes.
        """
        self._tensors, self._codecs, self._directory = tensors, codecs, directory
        self._is_text = tensors.output_form is RowForm.TEXT

    def check_whole(self, *, is_split: bool) -> None:
        """Check that one response has room for all outputs of a row.

        :param is_split: the stages run in separate workers, so that nothing can be streamed.
        :raises InputError: they come one by one, and each of them fills the tensors.
        """
        if self._tensors.streams and self._tensors.gives_signature:
            which = "generate" if is_split else "generate_stream, or ModelStreamInfer"
            raise InputError(f"the model streams its outputs: use {which}")

    def check(self, name: str, classes: int) -> None:
        """Check that the model has the output *name*, with elements that can be ordered if need be.

        :param classes: how many of the largest elements the client wants; 0 for all elements.
        :raises InputError: it has not, or they have none.
        """
        spec = self._tensors.outputs.get(name)
        if spec is None:
            known = ", ".join(self._tensors.outputs)
            raise InputError(f"unexpected output {name[:SHOWN]!r}; the model has {known}")
        if classes and spec.datatype.name in UNORDERED:
            raise InputError(f"output {name!r}: only numbers can be classified")

    def arrays(self, outputs: Sequence[Any]) -> dict[str, Array]:
        """Return an array ``[rows, *shape]`` for each output of the model.

        :param outputs: as ``Envelope.encode`` gets them.
        :raises ResultNotEncodable: the service did not return what its signature declares.
        """
        rows = self._rows(outputs[0]) if self._tensors.takes_signature else None
        if rows is not None and self._tensors.gives_signature:
            return {name: _column(spec, rows) for name, spec in self._tensors.outputs.items()}
        (name,) = self._tensors.outputs
        written = [self._string(each) for each in (outputs if rows is None else _each(rows))]
        array = np.empty((len(written), 1), object)
        array[:, 0] = written
        return {name: array}

    def classes(self, array: Array, count: int) -> tuple[Datatype, Array]:
        """Return the *count* largest elements of each row of *array*, as BYTES."""
        return BYTES, top(array, count, self._directory)

    def datatype(self, name: str) -> Datatype:
        """Return the datatype of the output *name*."""
        return self._tensors.outputs[name].datatype

    def _rows(self, output: Any) -> Rows:
        """Return *output* itself, or as rows if it is that of a single one."""
        if isinstance(output, Rows):
            return output
        (name, *_) = self._tensors.outputs
        values = output if isinstance(output, Mapping) else {name: output}
        return Rows({name: _array(each)[np.newaxis] for name, each in values.items()}, 1)

    def _string(self, output: Any) -> bytes | str:
        if isinstance(output, bytes) or (isinstance(output, str) and self._is_text):
            return output
        return self._codecs.write(JSON, output)


def _array(value: Any) -> Array:
    """Return *value* as an array; strings are objects."""
    array = np.asarray(value)
    return np.asarray(value, object) if array.dtype.kind in "US" else array


def _each(rows: Rows) -> Iterator[Any]:
    """Yield the outputs of a model that does not declare them: alone, or by name."""
    if rows.values.keys() == {OUTPUT}:
        yield from rows.values[OUTPUT]
        return
    for row in zip(*rows.values.values(), strict=True):
        yield dict(zip(rows.values, row, strict=True))


def _column(spec: ModelTensor, rows: Rows) -> Array:
    if spec.name not in rows.values:
        raise ResultNotEncodable(f"output: {spec.name!r} is missing")
    array: Array = rows.values[spec.name]
    try:
        if spec.datatype.size:
            array = array.astype(spec.datatype.dtype, casting="same_kind", copy=False)
        else:
            array = array.astype(object, copy=False)
    except TypeError as error:
        raise ResultNotEncodable(f"output {spec.name!r}: {error}") from error
    expected = spec.batch_shape
    fits = array.ndim == len(expected) and all(
        wanted in (-1, size) for size, wanted in zip(array.shape, expected, strict=True)
    )
    if not fits:
        raise ResultNotEncodable(f"output {spec.name!r}: {array.shape}, expected {expected}")
    return array
