# SPDX-License-Identifier: Apache-2.0
"""``multipart/form-data``: one part per input, each read by the codec of its own type."""

from collections.abc import Callable, Mapping
from typing import Any

import multipart

from servekit.errors import BodyMalformed, RequestError
from servekit.worker.codecs.json import decode_json

__all__ = ["FORM", "MAX_PARTS", "decode_form"]

FORM = "multipart/form-data"
MAX_PARTS = 16
MAX_PART_HEADERS = 8
MAX_HEADER_BYTES = 4096

#: content type and body of one part to its value
ReadPart = Callable[[bytes, bytes], Any]


def decode_form(body: bytes, parameters: Mapping[str, str], read_part: ReadPart) -> dict[str, Any]:
    """Return the value of every part by its name.

    :raises BodyMalformed: it is no form, or a part has no name, or two have one name.
    """
    if not body:
        raise BodyMalformed("body: empty")
    values: dict[str, Any] = {}
    for part, content in _parts(body, parameters.get("boundary", "")):
        name = part.name
        if part.disposition != "form-data" or not name:
            raise BodyMalformed("body: a part has no name")
        if name in values:
            raise BodyMalformed(f"{name[:80]}: two parts of one name")
        values[name] = _read(name, part, content, read_part)
    return values


def _parts(body: bytes, boundary: str) -> list[tuple[Any, bytes]]:
    parts: list[tuple[Any, bytearray]] = []
    try:
        with multipart.PushMultipartParser(
            boundary.encode("latin-1"),
            content_length=len(body),
            max_header_size=MAX_HEADER_BYTES,
            max_header_count=MAX_PART_HEADERS,
            max_segment_count=MAX_PARTS,
            strict=True,
        ) as parser:
            for event in (*parser.parse(body), *parser.parse(b"")):
                if isinstance(event, multipart.MultipartSegment):
                    parts.append((event, bytearray()))
                elif event:
                    parts[-1][1].extend(event)
    except multipart.ParserLimitReached:
        limits = f"{MAX_PARTS} parts of {MAX_PART_HEADERS} headers of {MAX_HEADER_BYTES} bytes"
        raise BodyMalformed(f"body: over the limit of {limits}") from None
    except ValueError:
        raise BodyMalformed("body: not multipart/form-data with the boundary it names") from None
    return [(part, bytes(content)) for part, content in parts]


def _read(name: str, part: Any, content: bytes, read_part: ReadPart) -> Any:
    """Read a file, or a part that says its type, by its codec; else it is JSON, or a text."""
    header = part.header("Content-Type", "")
    if not header and part.filename is None:
        return _json_or_text(name, content)
    try:
        return read_part((header or "application/octet-stream").encode("latin-1"), content)
    except RequestError as error:
        raise type(error)(f"{name[:80]}: {error.detail}", error.errors) from None


def _json_or_text(name: str, content: bytes) -> Any:
    try:
        return decode_json(content)
    except BodyMalformed:
        pass
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BodyMalformed(f"{name[:80]}: not UTF-8") from None
