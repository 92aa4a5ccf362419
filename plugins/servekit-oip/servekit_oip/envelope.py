# SPDX-License-Identifier: Apache-2.0
"""The worker half of the protocol over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servekit.extension import Envelope
from servekit_oip.generate import Generate
from servekit_oip.infer import Infer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import Codecs, EncodedResponse, EnvelopeRequest, ModelView

__all__ = ["OipRequests"]


class OipRequests(Envelope):
    """Passes a request on to what answers its verb."""

    def __init__(self, model: ModelView, codecs: Codecs) -> None:
        """Serve *model*."""
        super().__init__(model, codecs)
        infer, generate = Infer(model, codecs), Generate(model, codecs)
        self._verbs = {"infer": infer, "generate": generate, "generate_stream": generate}

    def _of(self, request: EnvelopeRequest) -> Envelope:
        return self._verbs[request.parameters["verb"]]

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the inputs of *request*."""
        return self._of(request).decode(request)

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the response with *outputs*."""
        return self._of(request).encode(request, outputs)

    def encode_output(self, request: EnvelopeRequest, output: Any) -> bytes:
        """Return the event of *output*."""
        return self._of(request).encode_output(request, output)
