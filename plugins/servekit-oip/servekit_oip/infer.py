# SPDX-License-Identifier: Apache-2.0
"""``/infer`` in a worker: tensors as JSON, and as bytes behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit.errors import InputError, ResultNotEncodable
from servekit.extension import EncodedResponse, Envelope
from servekit_oip.inputs import InputTensors
from servekit_oip.messages import RequestedInput, read_request
from servekit_oip.one_row import OneRowReader, OneRowWriter
from servekit_oip.outputs import OutputTensors
from servekit_oip.signature import model_tensors
from servekit_oip.tensors import from_buffer, from_json, to_buffer, to_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import Codecs, EnvelopeRequest, ModelView
    from servekit_oip.messages import InferRequest, RequestedOutput
    from servekit_oip.tensors import Array

__all__ = ["Infer"]

JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"
ALL_JSON, ALL_BINARY = "json", "binary"  #: every output, in one form
LENGTH_FIELD: Final = "Inference-Header-Content-Length"


class Infer(Envelope):
    """Reads requests for inference, and writes their outputs.

    What ``encode`` needs of a request is the state ``(id, [(name, is_binary, classes), ...])``, or
    ``ALL_JSON`` or ``ALL_BINARY`` in place of the list: in a pipeline, only the worker of the last
    stage knows the outputs.
    """

    def __init__(self, model: ModelView, codecs: Codecs) -> None:
        """Serve *model*."""
        super().__init__(model, codecs)
        self._tensors = model_tensors(model)
        self._outputs = OutputTensors(self._tensors, codecs, model.directory)
        self._names = {"model_name": model.name, "model_version": model.version}
        self._reader = OneRowReader(self._tensors)
        self._writer = OneRowWriter(self._tensors, self._names)
        self._every = {
            kind: [(name, kind == ALL_BINARY, 0) for name in self._tensors.outputs]
            for kind in (ALL_JSON, ALL_BINARY)
        }

    # ------------------------------------------------------------ requests

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return an input for each row of the tensors."""
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
        request.state = asked.id, self._wanted(asked)
        if not rest and (row := self._reader.from_json(asked.inputs)) is not None:
            return [row]
        inputs = InputTensors(self._tensors)
        self._collect(asked, rest, inputs)
        if rest and len(asked.inputs) == 1:
            row = self._reader.from_bytes(asked.inputs[0].shape, rest)
            return inputs.inputs() if row is None else [row]
        return inputs.inputs()

    def _collect(self, asked: InferRequest, rest: bytes | memoryview, inputs: InputTensors) -> None:
        """Put the tensors of a request, in the JSON or in the *rest* behind it, into *inputs*."""
        at = 0
        for each in asked.inputs:
            spec = inputs.expect(each.name, each.datatype, each.shape)
            size = each.parameters.binary_data_size
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
        if len(self._tensors.inputs) != 1:
            raise InputError(f"{LENGTH_FIELD}: raw bytes are for models with one input")
        request.state, body = ("", ALL_BINARY), request.body
        if (row := self._reader.from_bytes([1], body)) is not None:
            return [row]
        (spec,) = self._tensors.inputs.values()
        inputs = InputTensors(self._tensors)
        if spec.datatype.size:
            shape = [1, *spec.sized(len(body) // spec.datatype.size)]
        else:  # the body is its only element
            shape, body = [1] * (1 + len(spec.shape)), len(body).to_bytes(4, "little") + bytes(body)
        inputs.expect(spec.name, spec.datatype.name, shape)
        inputs.put(spec.name, from_buffer(spec.name, spec.datatype, shape, body))
        return inputs.inputs()

    def _wanted(self, asked: InferRequest) -> str | list[tuple[str, bool, int]]:
        is_binary = asked.parameters.binary_data_output
        if not asked.outputs:
            return ALL_BINARY if is_binary else ALL_JSON
        return [self._asked_for(each, is_binary) for each in asked.outputs]

    def _asked_for(self, output: RequestedOutput, is_binary: bool) -> tuple[str, bool, int]:
        parameters = output.parameters
        if parameters.shared_memory_region is not None:
            raise InputError(f"output {output.name!r}: shared memory is not supported")
        if parameters.classification < 0:
            raise InputError(f"output {output.name!r}: classification is below 0")
        if parameters.binary_data is not None:
            is_binary = parameters.binary_data
        return output.name, is_binary, parameters.classification

    # ------------------------------------------------------------ responses

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the outputs that the client wants, those in bytes behind the JSON."""
        id_, wanted = request.state
        if wanted == ALL_JSON and (text := self._writer.write(id_, outputs[0])) is not None:
            return EncodedResponse(body=text)
        wanted = self._every[wanted] if isinstance(wanted, str) else wanted
        for name, _, _ in wanted:
            self._outputs.check_name(name)
        arrays, told = self._outputs.arrays(outputs), []
        buffers: list[bytes | memoryview] = []
        for name, is_binary, classes in wanted:
            array, datatype = arrays[name], self._outputs.datatype(name)
            if classes:
                datatype, array = self._outputs.classes(name, array, classes)
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
        answer = {**self._names, "id": id_} if id_ else dict(self._names)
        text = self.codecs.write(JSON, {**answer, "outputs": told})
        if not any(is_binary for _, is_binary, _ in wanted):
            return EncodedResponse(body=text)
        headers = {LENGTH_FIELD: str(len(text))}
        return EncodedResponse(body=[text, *buffers], media_type=BINARY, headers=headers)


def _check_text(asked: RequestedInput) -> None:
    """Pass if the data of an input are in the JSON.

    :raises InputError: they are elsewhere.
    """
    if asked.parameters.shared_memory_region is not None:
        raise InputError(f"input {asked.name!r}: shared memory is not supported")
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
