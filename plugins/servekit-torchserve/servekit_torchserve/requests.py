# SPDX-License-Identifier: Apache-2.0
"""From the body of a request to the dictionary that a handler gets. Runs in: worker."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec
import multipart

from servekit.errors import BodyMalformed

__all__ = ["BODY", "HandlerRequest", "SentRequest", "read_row"]

JSON: Final = "application/json"
FORM: Final = "multipart/form-data"
URLENCODED: Final = "application/x-www-form-urlencoded"
BODY: Final = "body"
BOUNDARY: Final = re.compile(r';\s*boundary=(?:"([^"]+)"|([^\s;]+))', re.IGNORECASE)
MAX_PARTS: Final = 1024


class SentRequest(NamedTuple):
    """A request of the protocol as it was sent, until the service reads it."""

    content_type: str
    body: bytes | memoryview
    query: str
    headers: dict[str, str]  #: names in lower case
    request_id: str


class HandlerRequest(NamedTuple):
    """A request as its handler gets it."""

    row: dict[str, Any]
    headers: dict[str, str]  #: names in lower case
    request_id: str = ""
    is_native: bool = False  #: it came by the path of the model, not by the protocol


def read_row(
    content_type: str, body: bytes | memoryview, query: str = "", *, decodes: bool = True
) -> dict[str, Any]:
    """Return the members of a request: fields of its form, parameters of its query, its body.

    :param decodes: JSON is parsed, and text is decoded, if they are valid; else both are bytes.
    :raises BodyMalformed: the body is not the form that its content type says.
    """
    row: dict[str, Any] = {}
    if query:
        row |= _fields(query)
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == FORM:
        row |= _parts(content_type, body, decodes=decodes)
    elif media_type == URLENCODED:
        row |= _fields(bytes(body).decode("utf-8", "replace"))
    else:
        row[BODY] = _value(media_type, body, decodes=decodes)
    return row


def _fields(text: str) -> dict[str, Any]:
    """Return the parameters in *text*; their values are bytes, as in TorchServe."""
    pairs = parse_qsl(text, keep_blank_values=True)
    return {name: bytearray(value.encode()) for name, value in pairs}


def _value(media_type: str, content: bytes | bytearray | memoryview, *, decodes: bool) -> Any:
    """Return the value of *content*; its bytes if they are not what *media_type* says."""
    if decodes:
        with suppress(ValueError, RecursionError):
            if media_type == JSON:
                return _json(content)
            if media_type.startswith("text"):
                return str(content, "utf-8")
    return bytearray(content)


def _json(content: bytes | bytearray | memoryview) -> Any:
    """Return the value of *content* as Python's `json` reads it, faster where that is the same."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):  # NaN, for example
        return json.loads(bytes(content))


def _parts(content_type: str, body: bytes | memoryview, *, decodes: bool) -> dict[str, Any]:
    found = BOUNDARY.search(content_type)
    if found is None:
        raise BodyMalformed("Content-Type: boundary is missing")
    boundary, row = (found[1] or found[2]).encode(), dict[str, Any]()
    try:
        for part, content in _segments(boundary, bytes(body)):
            is_file = part.filename is not None
            media_type = part.header("Content-Type", "").partition(";")[0].strip().lower()
            row[part.name] = (
                _value(media_type, content, decodes=decodes) if is_file else bytearray(content)
            )
    except (multipart.MultipartError, ValueError):
        raise BodyMalformed("body: not a form with the boundary that it names") from None
    return row


def _segments(boundary: bytes, body: bytes) -> list[tuple[Any, bytearray]]:
    parts: list[tuple[Any, bytearray]] = []
    with multipart.PushMultipartParser(
        boundary, content_length=len(body), max_segment_count=MAX_PARTS
    ) as parser:
        for event in (*parser.parse(body), *parser.parse(b"")):
            if isinstance(event, multipart.MultipartSegment):
                parts.append((event, bytearray()))
            elif event:
                parts[-1][1].extend(event)
    return parts
