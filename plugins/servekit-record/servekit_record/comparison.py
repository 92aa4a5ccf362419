# SPDX-License-Identifier: Apache-2.0
"""Whether a response is the recorded one, within a tolerance."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from servekit.testing import difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit_record.recording import RecordedCall, RecordedMessage

__all__ = ["ResponseComparison"]

ARRAY = 78  #: extension type of arrays


class ResponseComparison:
    """Compares responses with recorded ones."""

    def __init__(self, tolerance: float, ignored: Sequence[str] = ()) -> None:
        """Allow numbers to differ by *tolerance*, relative or absolute.

        :param ignored: paths of members that may differ: ``prediction.id``, ``choices.*.created``.
        """
        self._tolerance = tolerance
        self._ignored = [path.lstrip(".").split(".") for path in ignored]

    def difference(self, call: RecordedCall, status: int, found: RecordedMessage) -> str:
        """Return how the response with *status* differs; "" if it does not."""
        if status != call.status:
            return f"status {status}, expected {call.status}{_detail(found)}"
        if call.is_stream:
            return ""
        expected = call.response
        if found.media_type != expected.media_type:
            return f"Content-Type {found.media_type!r}, expected {expected.media_type!r}"
        if found.body == expected.body:
            return ""
        try:
            value, recorded = map(self._value_of, (found, expected))
        except ValueError as error:
            return f"the body cannot be read: {error}"
        if isinstance(value, bytes):
            return f"{len(value)} bytes, not the {len(expected.body)} bytes that were recorded"
        told = difference(value, recorded, self._tolerance)
        return f"body{told}" if told else ""

    def _value_of(self, message: RecordedMessage) -> Any:
        value = _decoded(message)
        for path in self._ignored:
            _remove(value, path)
        return value


def _remove(value: Any, path: Sequence[str]) -> None:
    """Remove the members of *value* at *path*; ``*`` is any member or element."""
    step, *rest = path
    if isinstance(value, list):
        for each in value if step == "*" else value[int(step) :][:1] if step.isdigit() else []:
            if rest:
                _remove(each, rest)
    elif isinstance(value, dict):
        for name in [*value] if step == "*" else [step]:
            if rest and name in value:
                _remove(value[name], rest)
            else:
                value.pop(name, None)


def _decoded(message: RecordedMessage) -> Any:
    """Return the value in the body of *message*, or the body itself.

    :raises ValueError: it is not what its media type says.
    """
    kind, body = message.media_type, message.body
    if kind == "application/json" or kind.endswith("+json"):
        return json.loads(body)
    if kind in ("application/msgpack", "application/x-msgpack"):
        return _plain(msgpack.unpackb(body, strict_map_key=False, ext_hook=_extension))
    if kind == "application/x-npy":
        array = np.load(io.BytesIO(body), allow_pickle=False)
        return {"dtype": str(array.dtype), "values": array.tolist()}
    return body


def _extension(code: int, payload: bytes) -> Any:
    """Return the array in an extension of msgpack (docs/http-api.md) as nested lists."""
    if code != ARRAY:
        return [code, payload]
    dtype, shape, elements = msgpack.unpackb(payload)
    try:
        return np.frombuffer(elements, dtype).reshape(shape).tolist()
    except TypeError:  # bfloat16, for one, which numpy does not know
        return [dtype, shape, elements]


def _plain(value: Any) -> Any:
    """Return *value* with ``str`` for names and bytes, which ``difference`` can show."""
    if isinstance(value, dict):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.hex() if isinstance(value, bytes) else value


def _detail(message: RecordedMessage) -> str:
    """Return what an error says."""
    try:
        document = json.loads(message.body)
        told = document.get("detail") or document.get("title") or ""
    except (ValueError, AttributeError):
        return ""
    return f": {told}" if told else ""
