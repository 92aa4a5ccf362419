# SPDX-License-Identifier: Apache-2.0
"""``/generate`` and ``/generate_stream`` in a worker: one string in, strings out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from servekit.errors import BodyMalformed, InputError
from servekit.extension import EncodedInput, EncodedResponse, Envelope
from servekit_oip.signature import STREAM, RowForm, model_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import Codecs, EnvelopeRequest, ModelView

__all__ = ["Generate"]

JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"
PARAMETERS: Final = "parameters"
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
    - A model with a signature gets the members of the body, or of its ``parameters``, that are its
      inputs, as one row. A single element need not be in a list, and is not in the response.
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
        if self._tensors.input_form is RowForm.BYTES:
            return [EncodedInput(BINARY, asked.text_input.encode())]
        return [asked.text_input]

    def _row(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs in *body*, which may be in its ``parameters``.

        :raises InputError: one is in both.
        """
        inputs = self._tensors.inputs
        nested = {} if PARAMETERS in inputs else body.get(PARAMETERS, {})
        if not isinstance(nested, dict):
            raise InputError("parameters: expected an object")
        twice = [name for name in inputs if name in body and name in nested]
        if twice:
            raise InputError(f"input {twice[0]!r} is there twice")
        members = {**nested, **body}
        return {
            name: _wrapped(members[name], spec.shape)
            for name, spec in inputs.items()
            if name in members
        }

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the output; the outputs of a model that streams are joined."""
        (output,) = outputs
        if self._tensors.streams:
            output = self._joined(output)
        if request.is_stream:
            return EncodedResponse(body=self.encode_output(request, output), media_type=STREAM)
        return EncodedResponse(body=self._written(output))

    def _joined(self, outputs: Sequence[Any]) -> Any:
        """Return all *outputs* of a stream as one: strings joined, other values as a list."""
        if self._tensors.gives_signature and all(isinstance(each, Mapping) for each in outputs):
            columns: dict[str, list[Any]] = {}
            for name, value in chain.from_iterable(each.items() for each in outputs):
                columns.setdefault(name, []).append(_unwrapped(value))
            return {name: _text_or_list(values) for name, values in columns.items()}
        has_lists = self._tensors.gives_signature
        return _text_or_list([*map(_unwrapped, outputs)] if has_lists else outputs)

    def encode_output(self, request: EnvelopeRequest, output: Any) -> bytes:  # noqa: ARG002
        """Return the event of *output*."""
        return b"data: %b\n\n" % self._written(output)

    def _written(self, output: Any) -> bytes:
        if not isinstance(output, Mapping):
            names = self._tensors.outputs if self._tensors.gives_signature else (TEXT_OUTPUT,)
            output = {next(iter(names)): output}
        if self._tensors.gives_signature:
            output = {name: _unwrapped(value) for name, value in output.items()}
        return self.codecs.write(JSON, {**self._names, **output})


def _wrapped(value: Any, shape: Sequence[int]) -> Any:
    """Return *value* with the axes of *shape*, if it is one element and they hold just that."""
    is_one = not isinstance(value, list) and all(size in (-1, 1) for size in shape)
    for _ in shape if is_one else ():
        value = [value]
    return value


def _text_or_list(values: Sequence[Any]) -> str | Sequence[Any]:
    return "".join(values) if all(isinstance(each, str) for each in values) else values


def _unwrapped(value: Any) -> Any:
    """Return the only element of *value*, an array or lists; otherwise *value* itself."""
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.reshape(-1)[0]
    while isinstance(value, list) and len(value) == 1:
        (value,) = value
    return value
