# SPDX-License-Identifier: Apache-2.0
"""The tensors of a model in the words of the protocol. Imports no numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from servekit_oip.datatypes import BYTES, CONTENT, OF_DTYPE, Datatype

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from servekit.extension import ModelView

__all__ = ["OUTPUT", "STREAM", "ModelTensor", "ModelTensors", "RowForm", "model_tensors"]

INPUT, OUTPUT = "input", "output"  #: the tensors of a model without a signature
STREAM: Final = "text/event-stream"


class RowForm(Enum):
    """The meaning of an element in the tensor of a model without a signature."""

    JSON = "JSON of the input or output"
    TEXT = "the string itself"
    BYTES = "the bytes themselves"
    FILE = 'the content of a file, or the JSON ``{"b64": ...}``'


class ModelTensor(NamedTuple):
    """One input or output of a model."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]  #: the shape of one row; -1 is any size

    @property
    def batch_shape(self) -> list[int]:
        """The shape with the axis of the rows."""
        return [-1, *self.shape]

    def sized(self, elements: int) -> list[int]:
        """Return the shape of a row of *elements*, which go to its first open axis."""
        fixed = math.prod(size for size in self.shape if size != -1)
        shape = [1 if size == -1 else size for size in self.shape]
        if -1 in self.shape:
            shape[self.shape.index(-1)] = elements // fixed if fixed else 0
        return shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTensors:
    """The inputs and outputs of a model, each with an axis of rows in front.

    Without a signature, a row is one element in the tensor ``input``, and in ``output``.
    """

    inputs: Mapping[str, ModelTensor]
    outputs: Mapping[str, ModelTensor]
    takes_signature: bool  #: the inputs are those of the signature
    gives_signature: bool  #: the outputs are those of the signature
    input_form: RowForm  #: without a signature
    output_form: RowForm  #: the same for outputs
    streams: bool  #: outputs of one input come one by one


def model_tensors(model: ModelView) -> ModelTensors:
    """Return the tensors of *model*, which has been loaded at least once."""
    interface = model.interface
    assert interface is not None
    signature = interface.signature or {}
    inputs, outputs = _specs(signature.get("inputs")), _specs(signature.get("outputs"))
    streams = STREAM in interface.produces
    output_schema = interface.output_schema
    if streams:  # the schema is that of the list of outputs
        output_schema = output_schema.get("items", {})
    form = _form_of(interface.input_schema)
    datatype = BYTES if form is RowForm.TEXT else CONTENT
    return ModelTensors(
        inputs=inputs or {INPUT: ModelTensor(INPUT, datatype, (1,))},
        outputs=outputs or {OUTPUT: ModelTensor(OUTPUT, BYTES, (1,))},
        takes_signature=bool(inputs),
        gives_signature=bool(outputs),
        input_form=form,
        output_form=_form_of(output_schema),
        streams=streams,
    )


def _form_of(schema: Mapping[str, Any]) -> RowForm:
    """Return the form of the elements that *schema*, a JSON Schema, describes."""
    if schema.get("type") == "string":
        return RowForm.BYTES if "contentEncoding" in schema else RowForm.TEXT
    content = schema.get("properties", {}).get("b64", {})
    return RowForm.FILE if "contentEncoding" in content else RowForm.JSON


def _specs(declared: Sequence[Mapping[str, Any]] | None) -> dict[str, ModelTensor]:
    return {
        each["name"]: ModelTensor(each["name"], OF_DTYPE[each["dtype"]], tuple(each["shape"]))
        for each in declared or ()
    }
