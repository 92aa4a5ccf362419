# SPDX-License-Identifier: Apache-2.0
"""The worker half for JSON: ``instances`` become ``predictions``; any other value is one input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from servekit.errors import BodyMalformed, InputError
from servekit.extension import EncodedInput, EncodedResponse, Envelope, read_instances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import EnvelopeRequest

__all__ = ["VertexBody"]

JSON = "application/json"
ABSENT = msgspec.Raw(b"")
NULL = msgspec.Raw(b"null")


class PredictRequest(msgspec.Struct):
    """An object in JSON, whose other members are not looked at."""

    instances: msgspec.Raw = ABSENT
    parameters: msgspec.Raw = NULL


class VertexBody(Envelope):
    """Reads requests to ``predict``, and those to ``rawPredict`` whose body is JSON."""

    _decode_body = staticmethod(msgspec.json.Decoder(PredictRequest).decode)
    _decode_list = staticmethod(msgspec.json.Decoder(list[msgspec.Raw]).decode)
    _decode_object = staticmethod(msgspec.json.Decoder(dict[str, msgspec.Raw]).decode)
    _decode_parameters = staticmethod(msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode)

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return an input for each instance, with the parameters; or the whole body as one input.

        ``request.state`` is whether there are instances.
        """
        request.is_stream = "text/event-stream" in request.accept
        body = self._body(request)
        request.state = body.instances is not ABSENT
        if not request.state:
            return [EncodedInput(JSON, request.body)]
        try:
            instances = [bytes(each) for each in self._decode_list(body.instances)]
        except msgspec.ValidationError as error:
            raise InputError(f"instances: {error}") from None
        if parameters := self._parameters(body):
            instances = [self._with_parameters(each, parameters) for each in instances]
        return read_instances(self.codecs, instances)

    def _body(self, request: EnvelopeRequest) -> PredictRequest:
        try:
            return self._decode_body(request.body)
        except msgspec.ValidationError:
            return PredictRequest()  # not an object
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BodyMalformed(f"body: {error}") from None

    def _parameters(self, body: PredictRequest) -> dict[str, msgspec.Raw]:
        """Return the members of the parameters; none if these are absent or null."""
        try:
            return self._decode_parameters(body.parameters) or {}
        except msgspec.ValidationError as error:
            raise InputError(f"parameters: {error}") from None

    def _with_parameters(self, instance: bytes, parameters: dict[str, msgspec.Raw]) -> bytes:
        """Return *instance* with those members of *parameters* that it lacks."""
        try:
            return msgspec.json.encode(parameters | self._decode_object(instance))
        except msgspec.ValidationError:
            raise InputError("parameters: an instance is not an object") from None

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the outputs of all instances, or the only output alone."""
        answer = {"predictions": list(outputs)} if request.state else outputs[0]
        return EncodedResponse(body=self.codecs.write(JSON, answer))

    def encode_output(self, request: EnvelopeRequest, output: Any) -> bytes:  # noqa: ARG002
        """Return an event with *output*."""
        return b"data: %b\n\n" % self.codecs.write(JSON, output)
