# SPDX-License-Identifier: Apache-2.0
"""``/infer`` in a worker: tensors as JSON, and as bytes behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit.errors import InputError, ResultNotEncodable
from servekit.extension import EncodedResponse, Envelope, Rows
from servekit_oip.inputs import InputTensors
from servekit_oip.messages import (
    ALL_BINARY,
    ALL_JSON,
    NO_INPUT_PARAMETERS,
    RequestedInput,
    read_request,
    wanted_outputs,
)
from servekit_oip.outputs import OutputTensors
from servekit_oip.plain_responses import BINARY, LENGTH_FIELD
from servekit_oip.signature import model_tensors
from servekit_oip.tensors import from_buffer, from_json, to_buffer, to_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import Codecs, EnvelopeRequest, ModelView
    from servekit_oip.messages import InferRequest, OutputsWanted
    from servekit_oip.tensors import Array

__all__ = ["Infer"]

JSON: Final = "application/json"


class Infer(Envelope):
    """Reads requests for inference, and writes their outputs.

    What ``encode`` needs of a request is the state: its id, and the outputs that it wants. Those
    are checked before the model predicts; if stages run in separate workers, only the worker of
    the last one knows the outputs, and checks them.
    """

    def __init__(self, model: ModelView, codecs: Codecs) -> None:
        """Serve *model*."""
        super().__init__(model, codecs)
        self.tensors = model_tensors(model)
        self._outputs = OutputTensors(self.tensors, codecs, model.directory)
        self.names = {"model_name": model.name, "model_version": model.version}
        self._every = {
            kind: [(name, kind == ALL_BINARY, 0) for name in self.tensors.outputs]
            for kind in (ALL_JSON, ALL_BINARY)
        }

    # ------------------------------------------------------------ requests

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return an input for each row of the tensors."""
        if not request.is_split:
            self._outputs.check_whole(is_split=False)
        body, given = request.body, request.parameters.get("length")
        if given is None:
            return self._read(request, body, b"")
        length = int(given) if given.isascii() and given.isdigit() and len(given) < 20 else -1
        if not 0 <= length <= len(body):
            raise InputError(f"{LENGTH_FIELD}: {given[:40]!r} is not a length within the body")
        if not length:
            return self._read_raw(request)
        return self._read(request, body[:length], body[length:])

    def _read(
        self, request: EnvelopeRequest, text: bytes | memoryview, rest: bytes | memoryview
    ) -> list[Any]:
        asked = read_request(text)
        wanted = wanted_outputs(asked)
        if not request.is_split:
            self._check_outputs(wanted)
        request.state = asked.id or "", wanted
        inputs = InputTensors(self.tensors)
        self._collect(asked, rest, inputs)
        return _single(inputs.inputs())

    def _check_outputs(self, wanted: OutputsWanted) -> None:
        """Check that the model has the outputs that a request wants.

        :raises InputError: it has not.
        """
        for name, _, classes in () if isinstance(wanted, str) else wanted:
            self._outputs.check(name, classes)

    def _collect(self, asked: InferRequest, rest: bytes | memoryview, inputs: InputTensors) -> None:
        """Put the tensors of a request, in the JSON or in the *rest* behind it, into *inputs*."""
        at = 0
        for each in asked.inputs:
            spec = inputs.expect(each.name, each.datatype, each.shape)
            parameters = each.parameters or NO_INPUT_PARAMETERS
            if parameters.shared_memory_region is not None:
                raise InputError(f"input {each.name!r}: shared memory is not supported")
            size = parameters.binary_data_size
            if size is None:
                _check_text(each)
                inputs.put(each.name, from_json(each.name, spec.datatype, each.shape, each.data))
                continue
            if memoryview(each.data).nbytes:
                raise InputError(f"input {each.name!r}: has both data and binary_data_size")
            if not 0 <= size <= len(rest) - at:
                left = f"{len(rest) - at} bytes are left behind the JSON"
                raise InputError(f"input {each.name!r}: binary_data_size is {size}, and {left}")
            content, at = rest[at : at + size], at + size
            inputs.put(each.name, from_buffer(each.name, spec.datatype, each.shape, content))
        if at != len(rest):
            raise InputError(f"request: {len(rest) - at} bytes belong to no input")

    def _read_raw(self, request: EnvelopeRequest) -> list[Any]:
        """Return the one input of a body that is its bytes, without any JSON."""
        if len(self.tensors.inputs) != 1:
            raise InputError(f"{LENGTH_FIELD}: raw bytes are for models with one input")
        request.state, body = ("", ALL_BINARY), request.body
        (spec,) = self.tensors.inputs.values()
        inputs = InputTensors(self.tensors)
        if spec.datatype.size:
            shape = [1, *spec.sized(len(body) // spec.datatype.size)]
        else:  # the body is its only element
            shape, body = [1] * (1 + len(spec.shape)), len(body).to_bytes(4, "little") + bytes(body)
        inputs.expect(spec.name, spec.datatype.name, shape)
        inputs.put(spec.name, from_buffer(spec.name, spec.datatype, shape, body))
        return _single(inputs.inputs())

    # ------------------------------------------------------------ responses

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the outputs that the client wants, those in bytes behind the JSON."""
        id_, wanted = request.state
        wanted = self._every[wanted] if isinstance(wanted, str) else wanted
        if request.is_split:
            self._outputs.check_whole(is_split=True)
            self._check_outputs(wanted)
        arrays, told = self._outputs.arrays(outputs), []
        buffers: list[bytes | memoryview] = []
        for name, is_binary, classes in wanted:
            array, datatype = arrays[name], self._outputs.datatype(name)
            if classes:
                datatype, array = self._outputs.classes(array, classes)
            output: dict[str, Any] = {
                "name": name,
                "datatype": datatype.name,
                "shape": list(array.shape),
            }
            if is_binary:
                buffers.append(to_buffer(datatype, array))
                output["parameters"] = {"binary_data_size": len(buffers[-1])}
            else:
                output["data"] = _listed(name, array)
            told.append(output)
        answer = {**self.names, "id": id_} if id_ else dict(self.names)
        text = self.codecs.write(JSON, {**answer, "outputs": told})
        if not any(is_binary for _, is_binary, _ in wanted):
            return EncodedResponse(body=text)
        headers = {LENGTH_FIELD: str(len(text))}
        return EncodedResponse(body=[text, *buffers], media_type=BINARY, headers=headers)


def _single(inputs: list[Any]) -> list[Any]:
    """Return *inputs* with a row that is alone as what it is: one input."""
    if len(inputs) != 1 or not isinstance(inputs[0], Rows) or inputs[0].count != 1:
        return inputs
    return [{name: array[0] for name, array in inputs[0].values.items()}]


def _check_text(asked: RequestedInput) -> None:
    """Check that the data of an input are in the JSON.

    :raises InputError: they are elsewhere.
    """
    if not memoryview(asked.data).nbytes:
        raise InputError(f"input {asked.name!r}: has neither data nor binary_data_size")


def _listed(name: str, array: Array) -> Any:
    """Return the elements of *array* as a flat list, or what the codec of JSON writes as one."""
    if array.dtype.kind != "O":
        flat = array.reshape(-1)
        return flat.tolist() if flat.size < 32 else flat
    try:
        return [text.decode() for text in to_texts(array)]
    except UnicodeDecodeError:
        raise ResultNotEncodable(f"output {name!r}: not UTF-8, so not JSON") from None
