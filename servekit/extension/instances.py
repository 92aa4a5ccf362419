# SPDX-License-Identifier: Apache-2.0
"""Instances in JSON, as several protocols send them: each is one input."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any

from servekit.errors import InputError
from servekit.extension.envelope import EncodedInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.extension.envelope import Codecs

__all__ = ["read_instances"]

JSON = "application/json"


def read_instances(codecs: Codecs, instances: Iterable[bytes]) -> list[Any]:
    """Return an input for each of *instances*, which are JSON.

    ``{"b64": "..."}`` in an instance stands for bytes.

    :raises servekit.errors.InputError: such a string is not base64.
    """
    return [
        _with_bytes(codecs.read(JSON, text)) if b'"b64"' in text else EncodedInput(JSON, text)
        for text in instances
    ]


def _with_bytes(value: Any) -> Any:
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
