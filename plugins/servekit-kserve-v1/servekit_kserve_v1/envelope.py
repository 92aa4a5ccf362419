# SPDX-License-Identifier: Apache-2.0
"""The worker half: ``{"instances": [...]}`` in, ``{"predictions": [...]}`` out."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any

import msgspec

from servekit.errors import BodyMalformed, InputError
from servekit.extension import EncodedInput, EncodedResponse, Envelope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import EnvelopeRequest

__all__ = ["Instances"]

JSON = "application/json"


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
        texts = [bytes(instance) for instance in instances]
        return [
            _with_bytes(self.codecs.read(JSON, text))
            if b'"b64"' in text
            else EncodedInput(JSON, text)
            for text in texts
        ]

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the outputs under the name that the verb of the path gives them."""
        body = self.codecs.write(JSON, {request.parameters["member"]: list(outputs)})
        return EncodedResponse(body=body)


def _with_bytes(value: Any) -> Any:
    """Return *value* with bytes in place of ``{"b64": "..."}``.

    :raises InputError: the string is not base64.
    """
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {"b64"}:
        return {name: _with_bytes(each) for name, each in value.items()}
    try:
        return b64decode(value["b64"], validate=True)
    except (TypeError, ValueError):
        raise InputError("b64: not base64") from None
