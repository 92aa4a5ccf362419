# SPDX-License-Identifier: Apache-2.0
"""Requests with a single row, the most frequent ones: read and written as on native routes.

Arrays of a row cost more than all else that is done for a small request. So the JSON of such a row
becomes the JSON of a native request, and its bytes the body of one, and only the model makes
arrays of them. Whatever does not fit goes the way of requests with many rows, which also says what
is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from servekit.extension import EncodedInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit_oip.messages import RequestedInput
    from servekit_oip.signature import ModelTensor, ModelTensors

__all__ = ["OneRowReader", "OneRowWriter"]

JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"

_encode = msgspec.json.Encoder().encode


class InputForm:
    """The JSON of one input, if its row is a number or one list."""

    def __init__(self, tensor: ModelTensor) -> None:
        """Prepare for *tensor*."""
        self.datatype = tensor.datatype.name
        self._axes = len(tensor.shape)
        self._size = tensor.shape[0] if tensor.shape else 1
        self._counts = self._size == -1 and tensor.datatype.size > 0
        self._start = b"%b:" % _encode(tensor.name)

    def member(self, asked: RequestedInput) -> bytes | None:
        """Return the member of a native request that *asked* is; ``None`` if it is not plain."""
        shape, text = asked.shape, bytes(asked.data)
        if asked.datatype != self.datatype or asked.parameters.binary_data_size is not None:
            return None
        if len(shape) != self._axes + 1 or shape[0] != 1 or text.find(b"[", 1) != -1:
            return None
        if not self._axes:
            return self._start + text[1:-1] if text[:1] == b"[" and b"," not in text else None
        if shape[1] != self._size and not (self._counts and text.count(b",") + 1 == shape[1]):
            return None
        return self._start + text if text[:1] == b"[" else None


class OneRowReader:
    """Makes native inputs of requests with one row."""

    def __init__(self, tensors: ModelTensors) -> None:
        """Read the inputs of *tensors*."""
        self._forms: dict[str, InputForm] = {}
        self._can_be_raw = False
        specs = tensors.inputs
        if tensors.takes_signature and all(len(spec.shape) < 2 for spec in specs.values()):
            self._forms = {name: InputForm(spec) for name, spec in specs.items()}
        if tensors.takes_signature and len(specs) == 1:
            (spec,) = specs.values()
            is_number = spec.datatype.size > 0 and spec.datatype.name != "BOOL"
            self._can_be_raw = is_number and spec.shape.count(-1) < 2

    def from_json(self, inputs: Sequence[RequestedInput]) -> EncodedInput | None:
        """Return the native input that *inputs* are; ``None`` if they have to be looked at."""
        forms = self._forms
        if len(inputs) != len(forms):
            return None
        members = []
        for each in inputs:
            form = forms.get(each.name)
            member = form.member(each) if form is not None else None
            if member is None:
                return None
            members.append(member)
        return EncodedInput(JSON, b"{%b}" % b",".join(members))

    def from_bytes(self, shape: Sequence[int], content: bytes | memoryview) -> EncodedInput | None:
        """Return the native input that the tensor of *content* is; ``None`` as above.

        :param shape: only its number of rows matters; the model checks the size of *content*.
        """
        if self._can_be_raw and shape[0] == 1 and len(content):
            return EncodedInput(BINARY, content)
        return None


class OutputForm:
    """The JSON of one output whose shape is fixed."""

    def __init__(self, tensor: ModelTensor) -> None:
        """Prepare for *tensor*."""
        self._dtype, self._shape = np.dtype(tensor.datatype.dtype), tensor.shape
        self._keeps: dict[np.dtype[Any], bool] = {self._dtype: True}
        self._is_double = tensor.datatype.name == "FP64" and not tensor.shape
        told = {"name": tensor.name, "datatype": tensor.datatype.name, "shape": [1, *tensor.shape]}
        self._start = b'%b,"data":' % _encode(told)[:-1]

    def write(self, value: Any) -> bytes | None:
        """Return the output *value* of a row; ``None`` if it has to be looked at."""
        if self._is_double and type(value) is float:
            numbers = [value]
        elif isinstance(value, np.ndarray | np.generic) and value.shape == self._shape:
            keeps = self._keeps.get(value.dtype)
            if keeps is None:
                self._keeps[value.dtype] = keeps = np.can_cast(value.dtype, self._dtype, "safe")
            if not keeps:
                return None
            numbers = value.reshape(-1).tolist() if self._shape else [value.item()]
        else:
            return None
        text = _encode(numbers)
        return None if b"null" in text else b"%b%b}" % (self._start, text)  # NaN, for one


class OneRowWriter:
    """Writes responses whose outputs are all JSON, and of fixed shapes."""

    def __init__(self, tensors: ModelTensors, names: Mapping[str, str]) -> None:
        """Write the outputs of *tensors*.

        :param names: the members of every response.
        """
        self._forms: dict[str, OutputForm] = {}
        self._head = _encode(names)[:-1]
        specs = tensors.outputs.values()
        if tensors.gives_signature and all(
            spec.datatype.size and spec.datatype.name != "BF16" and -1 not in spec.shape
            for spec in specs
        ):
            self._forms = {spec.name: OutputForm(spec) for spec in specs}

    def write(self, id_: str, output: Any) -> bytes | None:
        """Return the response with the *output* of its row; ``None`` if it has to be looked at."""
        forms = self._forms
        if type(output) is not dict:
            output = dict.fromkeys(forms, output) if len(forms) == 1 else {}
        if not forms or output.keys() != forms.keys():
            return None
        texts = []
        for name, form in forms.items():
            text = form.write(output[name])
            if text is None:
                return None
            texts.append(text)
        id_text = b',"id":%b' % _encode(id_) if id_ else b""
        return b'%b%b,"outputs":[%b]}' % (self._head, id_text, b",".join(texts))
