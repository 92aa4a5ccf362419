# SPDX-License-Identifier: Apache-2.0
"""The worker half: ``{"instances": [...]}`` in, ``{"predictions": [...]}`` out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from servekit.errors import BodyMalformed, InputError
from servekit.extension import EncodedResponse, Envelope, read_instances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import EnvelopeRequest

__all__ = ["Instances"]


class Body(msgspec.Struct):
    """A request; other members are for servers of another kind."""

    instances: list[msgspec.Raw]


class Instances(Envelope):
    """Makes an input of each instance."""

    _decode_body = staticmethod(msgspec.json.Decoder(Body).decode)

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the instances: as JSON, unless they hold bytes as ``{"b64": "..."}``."""
        try:
            instances = self._decode_body(request.body).instances
        except msgspec.ValidationError as error:
            raise InputError(f"body: {error}") from None
        except msgspec.DecodeError as error:
            raise BodyMalformed(f"body: {error}") from None
        return read_instances(self.codecs, map(bytes, instances))

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the outputs under the name that the verb of the path gives them."""
        answer = {request.parameters["member"]: list(outputs)}
        return EncodedResponse(body=self.codecs.write("application/json", answer))
