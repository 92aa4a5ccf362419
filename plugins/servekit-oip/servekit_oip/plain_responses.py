# SPDX-License-Identifier: Apache-2.0
"""Responses with a single row whose outputs have fixed shapes: only the elements differ."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from servekit.extension import EncodedResponse
from servekit_oip.messages import ALL_BINARY, ALL_JSON, USUAL
from servekit_oip.tensors import to_buffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from servekit_oip.messages import State
    from servekit_oip.signature import ModelTensor, ModelTensors

__all__ = ["BINARY", "LENGTH_FIELD", "PlainWriter"]

BINARY: Final = "application/octet-stream"
LENGTH_FIELD: Final = "Inference-Header-Content-Length"
MOST_NUMBERS: Final = 256  #: larger outputs have a faster way to JSON
SMALL: Final = 4096  #: bytes of outputs that are joined at once; the server joins others, if at all
NULL: Final = b"n"  #: the text of NaN, for one, is ``null``
ARRAYS: Final = {np.ndarray}
#: NumPy's letters of the dtypes that are written alike, by kind
SAME_KINDS: Final = {"f": "efd", "i": "bhilq", "u": "BHILQ", "b": "?"}
NUMBERS: Final = {"f": float, "i": int, "u": int, "b": bool}  #: by kind, what JSON is written of

_encode = msgspec.json.Encoder().encode


class PlainWriter:
    """Writes the responses of one model; ``None`` stands for those that it cannot write."""

    def __init__(self, tensors: ModelTensors, names: Mapping[str, str]) -> None:
        """Write the outputs of *tensors*.

        :param names: the members of every response.
        """
        specs = [*tensors.outputs.values()]
        are_fixed = all(spec.datatype.size and -1 not in spec.shape for spec in specs)
        can_write = tensors.gives_signature and are_fixed
        self._forms = [OutputForm(spec) for spec in specs] if can_write else []
        self._names = [spec.name for spec in specs]
        self._start = _encode(names)[:-1]
        self._text = b',"outputs":[%b]}' % b",".join(form.text for form in self._forms)
        self._told = b',"outputs":[%b]}' % b",".join(form.told for form in self._forms)
        self._usual = self._before_bytes(self._start)  #: for requests without an id
        self._is_small = sum(form.size for form in self._forms) < SMALL
        self._in_json = ALL_JSON, [(name, False, 0) for name in self._names]
        self._in_bytes = ALL_BINARY, [(name, True, 0) for name in self._names]

    def write(
        self, states: Sequence[State], outputs: Sequence[Any]
    ) -> Sequence[bytes | EncodedResponse | None]:
        """Return the responses to requests with *states*, as those of ``Infer``."""
        if not self._forms:
            return [None] * len(outputs)
        if states.count(USUAL) < len(states):
            return [*map(self._write, states, outputs)]
        start, template = self._start, self._text
        rows = self._elements(outputs)
        return [start + template % row if None not in row else None for row in rows]

    def _write(self, state: State, output: Any) -> bytes | EncodedResponse | None:
        id_, wanted = state
        start = b'%b,"id":%b' % (self._start, _encode(id_)) if id_ else self._start
        if wanted in self._in_json:
            (parts,) = self._elements([output])
            return start + self._text % parts if None not in parts else None
        if wanted not in self._in_bytes:
            return None
        values = zip(self._forms, self._values_of(output), strict=True)
        contents = [form.content(value) for form, value in values]
        if None in contents:
            return None
        text, headers = self._before_bytes(start) if id_ else self._usual
        body: Any = [text, *contents]
        if self._is_small:
            body = b"".join(body)
        return EncodedResponse(body=body, media_type=BINARY, headers=headers)

    def _before_bytes(self, start: bytes) -> tuple[bytes, dict[str, str]]:
        """Return the JSON before the outputs in bytes, and the headers of the response."""
        text = start + self._told
        return text, {LENGTH_FIELD: str(len(text))}

    def _elements(self, outputs: Sequence[Any]) -> Iterable[tuple[bytes | None, ...]]:
        """Return the elements of each of *outputs* in JSON; ``None`` as in ``OutputForm``."""
        forms = self._forms
        if len(forms) == 1 and type(outputs[0]) is not dict:
            return zip(forms[0].in_json(outputs))
        columns = zip(*map(self._values_of, outputs), strict=True)
        parts = zip(forms, columns, strict=True)
        return zip(*(form.in_json(column) for form, column in parts), strict=True)

    def _values_of(self, output: Any) -> Sequence[Any]:
        """Return the values of *output* in the order of the signature; ``None`` if it has none."""
        names = self._names
        if type(output) is dict and len(output) == len(names):
            return [output.get(name) for name in names]
        return (output,) if len(names) == 1 else [None] * len(names)


class OutputForm:
    """One output whose shape is fixed."""

    def __init__(self, tensor: ModelTensor) -> None:
        """Prepare for *tensor*."""
        self._datatype, self._shape = tensor.datatype, tensor.shape
        self._dtype, size = np.dtype(tensor.datatype.dtype), math.prod(tensor.shape)
        self.size = size * self._dtype.itemsize  #: bytes
        told = {"name": tensor.name, "datatype": tensor.datatype.name, "shape": [1, *tensor.shape]}
        #: a template for its elements; a name may hold ``%``
        self.text = (b'%b,"data":[' % _encode(told)[:-1]).replace(b"%", b"%%") + b"%b]}"
        parameters = {"binary_data_size": self.size}
        self.told = _encode({**told, "parameters": parameters})
        self._may_be_json = size <= MOST_NUMBERS
        #: classes of numbers, and dtypes of arrays, that are written like those of the output
        self._scalars, self._dtypes = _kept_by(self._dtype)
        self._number = NUMBERS.get(self._dtype.kind, float)
        self._sent = self._dtype.newbyteorder("<")
        #: the classes of values that are single elements
        self._single = set[type]() if tensor.shape else self._scalars

    def in_json(self, values: Sequence[Any]) -> list[bytes | None]:
        """Return the elements of each of *values* as JSON; ``None``: they have to be looked at."""
        kinds = set(map(type, values))
        numbers: list[Any] | None = None
        if self._shape:
            numbers = self._lists(values) if kinds == ARRAYS and self._may_be_json else None
        elif kinds <= self._scalars:
            numbers = [*map(self._number, values)]
        text = _encode(numbers)
        if NULL not in text:
            return [*(text[2:-2].split(b"],[") if self._shape else text[1:-1].split(b","))]
        return [None] if len(values) == 1 else [self.in_json([value])[0] for value in values]

    def _lists(self, arrays: Sequence[Any]) -> list[list[Any]] | None:
        shape, dtypes = self._shape, self._dtypes
        if any(array.shape != shape or array.dtype not in dtypes for array in arrays):
            return None
        return [array.reshape(-1).tolist() for array in arrays]

    def content(self, value: Any) -> bytes | memoryview | None:
        """Return the elements of *value* as bytes; ``None``: they have to be looked at."""
        if type(value) in self._single:
            return np.array(value, self._sent).tobytes()
        is_array = isinstance(value, np.ndarray)
        if not is_array or value.shape != self._shape or value.dtype not in self._dtypes:
            return None
        return to_buffer(self._datatype, value)


def _kept_by(dtype: np.dtype[Any]) -> tuple[set[Any], set[np.dtype[Any]]]:
    """Return the classes of numbers, and the dtypes, that are written as numbers of *dtype*."""
    alike = map(np.dtype, SAME_KINDS.get(dtype.kind, ""))
    kept = {each for each in alike if np.can_cast(each, dtype)}
    own = {float} if dtype == np.float64 else set[type]()
    return {each.type for each in kept} | own, kept
