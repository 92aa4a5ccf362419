# SPDX-License-Identifier: Apache-2.0
"""Bodies as values that can be compared: one value, or a stream of events or lines."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servekit_record.recording import RecordedMessage

__all__ = ["EVENT", "BodyParts", "decode_body", "parts_of"]

EVENT: Final = "event"
ARRAY: Final = 78  #: extension type of arrays
EVENT_STREAM: Final = "text/event-stream"
#: media types of bodies with a JSON value in each line
JSON_LINES: Final = frozenset(
    f"application/{name}" for name in ("jsonl", "jsonlines", "ndjson", "x-jsonlines", "x-ndjson")
)
LINE_END: Final = re.compile("\r\n|\n|\r")


class BodyParts(NamedTuple):
    """A body that holds several values."""

    noun: str  #: the name of one of them: event, line
    #: an event is a dict with ``data``, and with ``event`` if it has another type than "message"
    values: list[Any]


def parts_of(message: RecordedMessage) -> BodyParts | None:
    """Return the values in the body of *message*; ``None`` if it is not a stream of values."""
    if message.media_type == EVENT_STREAM:
        return BodyParts(EVENT, [*_events(_text_of(message))])
    if message.media_type in JSON_LINES:
        return BodyParts(
            "line", [_value_of(line) for line in _text_of(message).split("\n") if line]
        )
    return None


def _text_of(message: RecordedMessage) -> str:
    return message.body.decode("utf-8", "backslashreplace")


def _events(text: str) -> Iterator[dict[str, Any]]:
    """Yield the server-sent events in *text*, also one that was cut off.

    Comments, ``id`` and ``retry`` are left out: they are for the connection.
    """
    kind, data = "", list[str]()
    for line in [*LINE_END.split(text.removeprefix("\ufeff")), ""]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif not line and (kind or data):
            shown = {} if kind in ("", "message") else {"event": kind}
            yield shown | {"data": _value_of("\n".join(data))}
            kind, data = "", []


def _value_of(text: str) -> Any:
    """Return the JSON value that *text* is, or *text*."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def decode_body(message: RecordedMessage) -> Any:
    """Return the value in the body of *message*, or the body itself.

    :raises ValueError: it is not what its media type says.
    :raises EOFError: it ends too early, as an array.
    :raises RecursionError: it is nested too deep.
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
