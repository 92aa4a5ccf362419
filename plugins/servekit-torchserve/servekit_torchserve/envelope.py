# SPDX-License-Identifier: Apache-2.0
"""The worker half of the protocol: the service reads requests and writes responses."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from servekit.extension import EncodedResponse, Envelope
from servekit_torchserve.requests import SentRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import EnvelopeRequest

__all__ = ["TorchServeEnvelope"]

OK: Final = 200
_decode = msgspec.json.Decoder(dict[str, str]).decode


@lru_cache(maxsize=256)
def _headers(text: str) -> dict[str, str]:
    """Return the header fields in *text*; the dictionary is shared by requests, and read-only."""
    return _decode(text)


class TorchServeEnvelope(Envelope):
    """Passes requests on as they were sent."""

    stream_media_type = "application/octet-stream"

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the only input, a ``SentRequest``."""
        parameters = request.parameters
        headers, query = _headers(parameters["headers"]), parameters.get("query", "")
        return [SentRequest(request.content_type, request.body, query, headers, request.request_id)]

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the response of the service, whose body is written already."""
        (output,) = outputs
        *parts, last = output if isinstance(output, list) else (output,)
        return EncodedResponse(
            body=b"".join([*parts, last.body]) if parts else last.body,
            media_type=last.media_type,
            status=last.status if last.status != OK else None,
            headers=last.headers,
        )

    def encode_output(self, request: EnvelopeRequest, output: Any) -> bytes:
        """Return a part of a stream; a response that comes without parts is sent whole."""
        if isinstance(output, bytes):
            request.state = True
            return output
        request.is_stream = request.state is not None
        return bytes(output.body) if request.is_stream else b""
