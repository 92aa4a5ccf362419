# SPDX-License-Identifier: Apache-2.0
"""The worker half: bodies that are the only input of a signature: ``curl -T kitten.jpg``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servekit.errors import UnknownMediaType
from servekit.extension import EncodedResponse, Envelope
from servekit.types import File
from servekit_mms.description import of_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import EnvelopeRequest

__all__ = ["RawBodies"]

JSON = "application/json"


class RawBodies(Envelope):
    """Reads a body as the part of a form, and answers with the prediction alone."""

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the inputs, of which there is one.

        :raises UnknownMediaType: the signature has several.
        """
        fields = of_view(self.model).fields
        if len(fields) != 1:
            names = ", ".join(field.name for field in fields)
            raise UnknownMediaType(f"Content-Type: a form is needed, with the parts {names}")
        body = bytes(request.body)
        return [{fields[0].name: File("", "", body) if fields[0].is_file else body}]

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the prediction as JSON, or as the type that the service chose."""
        chosen = request.response.content_type if request.response is not None else None
        if chosen is not None:
            return EncodedResponse(body=outputs[0], media_type=chosen)
        return EncodedResponse(body=self.codecs.write(JSON, outputs[0]), media_type=JSON)
