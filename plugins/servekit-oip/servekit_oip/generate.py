# SPDX-License-Identifier: Apache-2.0
"""``/generate`` and ``/generate_stream`` in a worker: one string in, strings out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from servekit.errors import BodyMalformed, InputError
from servekit.extension import EncodedResponse, Envelope
from servekit_oip.signature import STREAM, model_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import Codecs, EnvelopeRequest, ModelView

__all__ = ["Generate"]

JSON: Final = "application/json"
OBJECT: Final = "object"  #: the JSON Schema type of an object
TEXT_INPUT, TEXT_OUTPUT = "text_input", "text_output"


class GenerateRequest(Struct):
    """The body; a model with a signature reads its inputs beside these."""

    text_input: str
    parameters: dict[str, Any] = {}


class Generate(Envelope):
    """Makes an input of one string, and JSON of each output.

    - A service whose inputs are objects gets the string as ``text_input``, and the parameters
      beside it.
    - A model with a signature gets the members of the body that are its inputs, as one row.
    - Any other service gets the string, and takes no parameters.
    """

    def __init__(self, model: ModelView, codecs: Codecs) -> None:
        """Serve *model*."""
        super().__init__(model, codecs)
        self._tensors = model_tensors(model)
        assert model.interface is not None
        schema = model.interface.input_schema
        self._takes_objects = schema.get("type") == OBJECT or "$ref" in schema
        self._names = {"model_name": model.name, "model_version": model.version}

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the one input."""
        try:
            if self._tensors.takes_signature:
                return [self._row(msgspec.json.decode(request.body, type=dict[str, Any]))]
            asked = msgspec.json.decode(request.body, type=GenerateRequest)
        except msgspec.ValidationError as error:
            raise InputError(f"request: {error}".replace("`", "")) from None
        except msgspec.DecodeError as error:
            raise BodyMalformed(f"request: {error}") from None
        if self._takes_objects:
            return [{TEXT_INPUT: asked.text_input, **asked.parameters}]
        if asked.parameters:
            raise InputError("parameters: the model takes a string only")
        return [asked.text_input]

    def _row(self, body: Mapping[str, Any]) -> dict[str, Any]:
        inputs = self._tensors.inputs
        row = {name: body[name] for name in inputs if name in body}
        for name, value in row.items():
            shape = inputs[name].shape
            if not isinstance(value, list) and shape:  # one element stands for a row of one
                row[name] = np.full([1 if size == -1 else size for size in shape], value, object)
                row[name] = row[name].tolist()
        return row

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the output; the outputs of a model that streams are joined."""
        (output,) = outputs
        if self._tensors.streams and all(isinstance(each, str) for each in output):
            output = "".join(output)
        if request.is_stream:
            return EncodedResponse(body=self.encode_output(request, output), media_type=STREAM)
        return EncodedResponse(body=self._written(output))

    def encode_output(self, request: EnvelopeRequest, output: Any) -> bytes:  # noqa: ARG002
        """Return the event of *output*."""
        return b"data: %b\n\n" % self._written(output)

    def _written(self, output: Any) -> bytes:
        if not isinstance(output, Mapping):
            names = self._tensors.outputs if self._tensors.gives_signature else (TEXT_OUTPUT,)
            output = {next(iter(names)): output}
        return self.codecs.write(JSON, {**self._names, **output})
