# SPDX-License-Identifier: Apache-2.0
"""The worker half of gRPC: a ModelInferRequest in, a ModelInferResponse out.

The contents of raw tensors are views of the request: only the rest of the message is parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from google.protobuf.message import DecodeError

from servekit.errors import BodyMalformed, InputError
from servekit.extension import EncodedResponse, Envelope, Rows
from servekit_oip.grpc.contents import SHARED_MEMORY, asked_for, values_of
from servekit_oip.grpc.messages import message_class
from servekit_oip.grpc.plain import PlainMessages
from servekit_oip.grpc.wire import (
    MESSAGE,
    MESSAGES,
    RAW_OUTPUTS,
    RESPONSE_ID,
    delimited,
    framed,
    parts_of,
    response_piece,
)
from servekit_oip.inputs import InputTensors
from servekit_oip.outputs import OutputTensors
from servekit_oip.signature import model_tensors
from servekit_oip.tensors import from_buffer, from_values, to_buffer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit.extension import Codecs, EnvelopeRequest, ModelView, PlainRequest
    from servekit_oip.datatypes import Datatype

__all__ = ["GrpcMessages"]

Request: Final = message_class("ModelInferRequest")
Response: Final = message_class("ModelInferResponse")
MAX_KNOWN: Final = 64  #: requests and heads of responses that are remembered
MAX_REST: Final = 4096  #: bytes of a request besides raw contents, to be remembered
FINAL: Final = "triton_final_response"
WANTS_FINAL: Final = "triton_enable_empty_final_response"

RawTensor: TypeAlias = "tuple[str, Datatype, Sequence[int]]"


class GrpcMessages(Envelope):
    """Reads requests and writes responses.

    What the methods for outputs need of a request is the state
    ``(id, [(name, classes), ...], wants_final, has_rows)``.
    """

    stream_media_type = MESSAGES

    def __init__(self, model: ModelView, codecs: Codecs) -> None:
        """Serve *model*."""
        super().__init__(model, codecs)
        self._tensors = model_tensors(model)
        self._outputs = OutputTensors(self._tensors, codecs, model.directory)
        self._all = [(name, 0) for name in self._tensors.outputs]
        self._known: dict[bytes, KnownRequest] = {}  #: by the fields that clients repeat
        self._heads: dict[object, bytes] = {}  #: of responses, by what they say
        self._plain = PlainMessages(self._tensors, self._head)

    # ------------------------------------------------------------ requests

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the rows of the tensors."""
        if not (request.is_stream or request.is_split):
            self._outputs.check_whole(is_split=False)
        try:
            rest, id_, contents = parts_of(request.body)
        except ValueError as error:
            raise BodyMalformed(str(error)) from None
        known = self._known.get(rest)
        if known is None or len(known.tensors) != len(contents):
            return self._parse(request, rest, id_, contents)
        request.state = id_, *known.options
        arrays = {
            name: from_buffer(name, datatype, shape, content)
            for (name, datatype, shape), content in zip(known.tensors, contents, strict=True)
        }
        return [Rows(arrays, known.rows)]

    def decode_plain(
        self,
        body: bytes | memoryview,
        parameters: Mapping[str, str],  # noqa: ARG002
    ) -> PlainRequest | None:
        """Return a request like others before it, with one row."""
        try:
            return self._plain.read(body)
        except ValueError:  # ``decode`` says what is wrong
            return None

    def _parse(
        self, request: EnvelopeRequest, rest: bytes, id_: str, contents: Sequence[memoryview]
    ) -> Sequence[Any]:
        """Return the rows, and remember what *rest* says: clients repeat it."""
        try:
            asked = Request.FromString(rest)
        except DecodeError as error:
            raise BodyMalformed(str(error)) from None
        if contents and len(contents) != len(asked.inputs):
            counts = f"{len(contents)} raw_input_contents for {len(asked.inputs)} inputs"
            raise InputError(f"{counts} of model '{self.model.name}'")
        inputs, tensors = InputTensors(self._tensors), list[RawTensor]()
        has_rows = self._has_rows(asked.inputs)
        for place, tensor in enumerate(asked.inputs):
            name, shape = tensor.name, [*([] if has_rows else [1]), *tensor.shape]
            self._check(tensor, is_raw=bool(contents))
            datatype = inputs.expect(name, tensor.datatype, shape).datatype
            if contents:
                array = from_buffer(name, datatype, shape, contents[place])
            else:
                array = from_values(name, datatype, shape, values_of(tensor, datatype))
            inputs.put(name, array)
            tensors.append((name, datatype, shape))
        wants_final = WANTS_FINAL in asked.parameters and asked.parameters[WANTS_FINAL].bool_param
        options = self._wanted(request, asked.outputs), wants_final, has_rows
        request.state, found = (id_, *options), inputs.inputs()
        is_usual = has_rows and self._tensors.takes_signature
        if contents and is_usual and len(rest) <= MAX_REST:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[rest] = KnownRequest(tensors, found[0].count, options)
            if len(contents) == 1:
                self._plain.remember(rest, tensors[0][2], ("", *options))
        return found

    def _has_rows(self, inputs: Sequence[Any]) -> bool:
        """Whether *inputs* have an axis of rows, which a model that streams can do without."""
        specs = self._tensors.inputs
        return not self._tensors.streams or any(
            each.name not in specs or len(each.shape) != len(specs[each.name].shape)
            for each in inputs
        )

    def _check(self, tensor: Any, *, is_raw: bool) -> None:
        """Check that the content of *tensor* is where it should be.

        :raises InputError: it is elsewhere.
        """
        if SHARED_MEMORY in tensor.parameters:
            raise InputError(f"input {tensor.name!r}: shared memory is not supported")
        if is_raw and tensor.HasField("contents"):
            field = "contents field must not be specified when using raw_input_contents"
            raise InputError(f"{field} for '{tensor.name}' for model '{self.model.name}'")

    def _wanted(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> list[tuple[str, int]]:
        """Return name and number of classes of each output that the client wants.

        They may be none, which stands for all: if stages run in separate workers, only the worker
        of the last one knows the outputs, and checks them.
        """
        if not outputs and not request.is_split:
            return self._all
        wanted = [asked_for(output) for output in outputs]
        if not request.is_split:
            self._check_outputs(wanted)
        return wanted

    def _check_outputs(self, wanted: Sequence[tuple[str, int]]) -> None:
        for name, classes in wanted:
            self._outputs.check(name, classes)

    # ------------------------------------------------------------ responses

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the response with *outputs*."""
        if request.is_split:
            self._outputs.check_whole(is_split=True)
        body = self._message(request, outputs, [True] if request.is_stream else [])
        return EncodedResponse(body=body, media_type=MESSAGE)

    def encode_plain(
        self, states: Sequence[Any], outputs: Sequence[Any]
    ) -> Sequence[bytes | EncodedResponse | None]:
        """Return the responses to requests with one row."""
        return self._plain.write(states, outputs)

    def encode_output(self, request: EnvelopeRequest, output: Any) -> bytes:
        """Return the message with one output of a stream."""
        return framed(response_piece(b"".join(self._message(request, [output], [False]))))

    def encode_end(self, request: EnvelopeRequest) -> bytes:
        """Return the last message of a stream, without outputs, if the client wants one."""
        id_, _, wants_final, _ = request.state
        if not wants_final:
            return b""
        return framed(response_piece(self._head(id_, [True])))

    def _message(
        self, request: EnvelopeRequest, outputs: Sequence[Any], finals: Sequence[bool]
    ) -> list[bytes | memoryview]:
        """Return the parts of a ModelInferResponse.

        :param finals: whether it is the last response, on a stream.
        """
        id_, wanted, _, has_rows = request.state
        if request.is_split:
            self._check_outputs(wanted)
        wanted = wanted or self._all
        arrays, contents = self._outputs.arrays(outputs), list[bytes | memoryview]()
        told = []
        for name, classes in wanted:
            array, datatype = arrays[name], self._outputs.datatype(name)
            if classes:
                datatype, array = self._outputs.classes(array, classes)
            told.append((name, datatype.name, array.shape if has_rows else array.shape[1:]))
            content = to_buffer(datatype, array)
            contents += (delimited(RAW_OUTPUTS, len(content)), content)
        return [self._head(id_, finals, told), *contents]

    def _head(
        self,
        id_: str,
        finals: Sequence[bool],
        outputs: Sequence[tuple[str, str, tuple[int, ...]]] = (),
    ) -> bytes:
        """Return a response without contents."""
        key = (*finals, *outputs)
        head = self._heads.get(key)
        if head is None:
            response = Response(model_name=self.model.name, model_version=self.model.version)
            for name, datatype, shape in outputs:
                response.outputs.add(name=name, datatype=datatype, shape=shape)
            for is_final in finals:
                response.parameters[FINAL].bool_param = is_final
            if len(self._heads) >= MAX_KNOWN:
                self._heads.clear()
            head = self._heads[key] = response.SerializeToString()
        if not id_:
            return head
        content = id_.encode()
        return head + delimited(RESPONSE_ID, len(content)) + content


class KnownRequest(NamedTuple):
    """The checked fields of a request with raw contents, which clients repeat."""

    tensors: Sequence[RawTensor]
    rows: int
    options: tuple[Sequence[tuple[str, int]], bool, bool]  #: the rest of the state
