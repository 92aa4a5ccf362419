# SPDX-License-Identifier: Apache-2.0
"""The worker half of the protocol over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servekit.extension import Envelope
from servekit_oip.generate import Generate
from servekit_oip.infer import Infer
from servekit_oip.plain_requests import PlainReader
from servekit_oip.plain_responses import PlainWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit.extension import (
        Codecs,
        EncodedResponse,
        EnvelopeRequest,
        ModelView,
        PlainRequest,
    )

__all__ = ["OipRequests"]


class OipRequests(Envelope):
    """Passes a request on to what answers its verb."""

    def __init__(self, model: ModelView, codecs: Codecs) -> None:
        """Serve *model*."""
        super().__init__(model, codecs)
        infer, generate = Infer(model, codecs), Generate(model, codecs)
        self._verbs = {"infer": infer, "generate": generate, "generate_stream": generate}
        self._reader = PlainReader(infer.tensors, codecs)
        self._writer = PlainWriter(infer.tensors, infer.names)

    def _of(self, request: EnvelopeRequest) -> Envelope:
        return self._verbs[request.parameters["verb"]]

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the inputs of *request*."""
        return self._of(request).decode(request)

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the response with *outputs*."""
        return self._of(request).encode(request, outputs)

    def decode_plain(
        self, body: bytes | memoryview, parameters: Mapping[str, str]
    ) -> PlainRequest | None:
        """Return a request for inference of a usual form."""
        is_infer = parameters["verb"] == "infer"
        return self._reader.read(body, parameters.get("length")) if is_infer else None

    def encode_plain(
        self, states: Sequence[Any], outputs: Sequence[Any]
    ) -> Sequence[bytes | EncodedResponse | None]:
        """Return the responses to such requests."""
        return self._writer.write(states, outputs)

    def encode_output(self, request: EnvelopeRequest, output: Any) -> bytes:
        """Return the event of *output*."""
        return self._of(request).encode_output(request, output)
