# SPDX-License-Identifier: Apache-2.0
"""The worker half of gRPC: a ModelInferRequest in, a ModelInferResponse out.

The contents of raw tensors are views of the request: only the rest of the message is parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from servekit.errors import BodyMalformed, InputError
from servekit.extension import EncodedResponse, Envelope
from servekit_oip.grpc.messages import message_class
from servekit_oip.grpc.wire import MESSAGE, MESSAGES, delimited, framed, response_piece, split
from servekit_oip.inputs import InputTensors
from servekit_oip.outputs import OutputTensors
from servekit_oip.signature import model_tensors
from servekit_oip.tensors import from_buffer, from_values, to_buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import Codecs, EnvelopeRequest, ModelView
    from servekit_oip.datatypes import Datatype

__all__ = ["GrpcMessages"]

Request: Final = message_class("ModelInferRequest")
Response: Final = message_class("ModelInferResponse")
RAW_INPUTS: Final = 7  #: the field of ModelInferRequest with the contents of all inputs
RAW_OUTPUTS: Final = 6  #: that of ModelInferResponse
#: by datatype, the field of InferTensorContents; 16-bit floats have none
CONTENTS: Final = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
CLASSIFICATION: Final = "classification"
SHARED_MEMORY: Final = "shared_memory_region"
FINAL: Final = "triton_final_response"
WANTS_FINAL: Final = "triton_enable_empty_final_response"


class GrpcMessages(Envelope):
    """Reads requests and writes responses.

    What the methods for outputs need of a request is the state
    ``(id, [(name, classes), ...], wants_final)``.
    """

    stream_media_type = MESSAGES

    def __init__(self, model: ModelView, codecs: Codecs) -> None:
        """Serve *model*."""
        super().__init__(model, codecs)
        self._tensors = model_tensors(model)
        self._outputs = OutputTensors(self._tensors, codecs, model.directory)
        self._all = [(name, 0) for name in self._tensors.outputs]

    # ------------------------------------------------------------ requests

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return an input for each row of the tensors."""
        try:
            rest, contents = split(request.body, RAW_INPUTS)
            asked = Request.FromString(rest)
        except (ValueError, DecodeError) as error:
            raise BodyMalformed(str(error)) from None
        if contents and len(contents) != len(asked.inputs):
            counts = f"{len(contents)} raw_input_contents for {len(asked.inputs)} inputs"
            raise InputError(f"{counts} of model '{self.model.name}'")
        inputs = InputTensors(self._tensors)
        for place, tensor in enumerate(asked.inputs):
            name, shape = tensor.name, list(tensor.shape)
            self._check(tensor, is_raw=bool(contents))
            datatype = inputs.expect(name, tensor.datatype, shape).datatype
            if contents:
                array = from_buffer(name, datatype, shape, contents[place])
            else:
                array = from_values(name, datatype, shape, _values(tensor, datatype))
            inputs.put(name, array)
        wants_final = WANTS_FINAL in asked.parameters and asked.parameters[WANTS_FINAL].bool_param
        request.state = asked.id, self._wanted(asked.outputs), wants_final
        return inputs.inputs()

    def _check(self, tensor: Any, *, is_raw: bool) -> None:
        """Pass if the content of *tensor* is where it should be.

        :raises InputError: it is elsewhere.
        """
        if SHARED_MEMORY in tensor.parameters:
            raise InputError(f"input {tensor.name!r}: shared memory is not supported")
        if is_raw and tensor.HasField("contents"):
            field = "contents field must not be specified when using raw_input_contents"
            raise InputError(f"{field} for '{tensor.name}' for model '{self.model.name}'")

    def _wanted(self, outputs: Sequence[Any]) -> list[tuple[str, int]]:
        """Return name and number of classes of each output that the client wants."""
        if not outputs:
            return self._all
        wanted = []
        for output in outputs:
            self._outputs.check_name(output.name)
            if SHARED_MEMORY in output.parameters:
                raise InputError(f"output {output.name!r}: shared memory is not supported")
            classes = 0
            if CLASSIFICATION in output.parameters:
                classes = output.parameters[CLASSIFICATION].int64_param
            if classes < 0:
                raise InputError(f"output {output.name!r}: classification is below 0")
            wanted.append((output.name, classes))
        return wanted

    # ------------------------------------------------------------ responses

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the response with *outputs*."""
        is_final = request.is_stream and request.state[2]
        body = self._message(request, outputs, [True] if is_final else [])
        return EncodedResponse(body=body, media_type=MESSAGE)

    def encode_output(self, request: EnvelopeRequest, output: Any) -> bytes:
        """Return the message with one output of a stream."""
        finals = [False] if request.state[2] else []
        return framed(response_piece(b"".join(self._message(request, [output], finals))))

    def encode_end(self, request: EnvelopeRequest) -> bytes:
        """Return the last message of a stream, without outputs, if the client wants one."""
        id_, _, wants_final = request.state
        if not wants_final:
            return b""
        return framed(response_piece(self._head(id_, [True]).SerializeToString()))

    def _message(
        self, request: EnvelopeRequest, outputs: Sequence[Any], finals: Sequence[bool]
    ) -> list[bytes | memoryview]:
        """Return the parts of a ModelInferResponse.

        :param finals: whether it is the last response, if the client wants to know.
        """
        id_, wanted, _ = request.state
        arrays, contents = self._outputs.arrays(outputs), list[bytes | memoryview]()
        response = self._head(id_, finals)
        for name, classes in wanted:
            array, datatype = arrays[name], self._outputs.datatype(name)
            if classes:
                datatype, array = self._outputs.classes(name, array, classes)
            response.outputs.add(name=name, datatype=datatype.name, shape=array.shape)
            content = to_buffer(datatype, array)
            contents += (delimited(RAW_OUTPUTS, len(content)), content)
        return [response.SerializeToString(), *contents]

    def _head(self, id_: str, finals: Sequence[bool]) -> Any:
        response = Response(model_name=self.model.name, model_version=self.model.version, id=id_)
        for is_final in finals:
            response.parameters[FINAL].bool_param = is_final
        return response


def _values(tensor: Any, datatype: Datatype) -> list[Any]:
    """Return the elements in the contents of *tensor*.

    :raises InputError: 16-bit floats are only sent raw, or an element is not UTF-8.
    """
    if datatype.name not in CONTENTS:
        raise InputError(f"input {tensor.name!r}: {datatype.name} needs raw_input_contents")
    values = list(getattr(tensor.contents, CONTENTS[datatype.name]))
    if datatype.size:
        return values
    try:
        return [value.decode() for value in values]
    except UnicodeDecodeError:
        raise InputError(f"input {tensor.name!r}: an element is not UTF-8") from None
