# SPDX-License-Identifier: Apache-2.0
"""The worker half: requests and responses pass unchanged, since the service knows the formats."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from servekit.errors import BodyMalformed, UnknownMediaType
from servekit.extension import EncodedResponse, Envelope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import EnvelopeRequest

__all__ = ["Invocation", "Invocations"]


JSON: Final = "application/json"
PARQUET: Final = "application/vnd.apache.parquet"


class Invocation(NamedTuple):
    """One request in a format of MLflow."""

    content_type: str
    body: str | bytes  #: bytes of Parquet, and of JSON after a byte order mark


class Invocations(Envelope):
    """Makes one input of a request, however many rows it has."""

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the request as an ``Invocation``."""
        if not request.content_type.strip():
            raise UnknownMediaType("Content-Type: missing; one of application/json, text/csv")
        media_type = request.content_type.partition(";")[0].strip()
        is_marked = bytes(request.body[: len(BOM_UTF8)]) == BOM_UTF8
        if media_type == PARQUET or (media_type == JSON and is_marked):
            return [Invocation(request.content_type, bytes(request.body))]
        try:
            return [Invocation(request.content_type, str(request.body, "utf-8"))]
        except UnicodeDecodeError as error:
            raise BodyMalformed(f"body: not UTF-8 at byte {error.start}") from None

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the ``Response`` of the service, whose body is written already."""
        (body,) = outputs
        media_type = request.response.content_type if request.response is not None else None
        encoded = body.encode() if isinstance(body, str) else body
        return EncodedResponse(body=encoded, media_type=media_type or JSON)
