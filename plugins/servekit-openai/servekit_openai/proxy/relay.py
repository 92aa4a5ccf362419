# SPDX-License-Identifier: Apache-2.0
"""Requests to engines and their responses, on their way through a worker.

A service that passes requests on gets an ``EngineCall``. It yields an ``EngineHead`` and then the
bytes of the body as they come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

from servekit.extension import EncodedResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import EnvelopeRequest

__all__ = ["EngineCall", "EngineHead", "call_of", "relayed"]

EVENT_STREAM: Final = "text/event-stream"


class EngineCall(Struct):
    """A request for an engine."""

    path: Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]
    body: bytes


class EngineHead(Struct):
    """The head of the response of an engine."""

    status: int
    content_type: str
    headers: dict[str, str] = {}  #: those that its clients look at

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events, which errors never are."""
        return self.status == 200 and self.content_type.startswith(EVENT_STREAM)


class Streamed(Struct):
    """The member of a body that asks for a stream; all others are skipped."""

    stream: bool | None = None


_decode = msgspec.json.Decoder(Streamed).decode


def call_of(request: EnvelopeRequest) -> EngineCall:
    """Return what *request* asks of an engine, which judges the body itself."""
    body = bytes(request.body)
    try:
        request.is_stream = bool(_decode(body).stream)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        request.is_stream = False
    return EngineCall(request.parameters["path"], body)  # type: ignore[arg-type] # one of ours


def relayed(outputs: Sequence[Any]) -> EncodedResponse:
    """Return the response that *outputs* make up: a head, and the parts of a body."""
    head: EngineHead = outputs[0]
    return EncodedResponse(
        body=b"".join(outputs[1:]),
        media_type=head.content_type,
        status=head.status,
        headers=head.headers,
    )
