# SPDX-License-Identifier: Apache-2.0
"""``multipart/form-data``: one part per input, each read by the codec of its own type."""

import re
from collections.abc import Callable, Mapping, Set
from typing import Any

import multipart

from servekit.errors import BodyMalformed, RequestError, UnknownMediaType
from servekit.types import File
from servekit.worker.codecs.json import decode_json

__all__ = ["FORM", "MAX_PARTS", "decode_form"]

FORM = "multipart/form-data"
MAX_PARTS = 128
MAX_PART_HEADERS = 8
MAX_HEADER_BYTES = 4096
#: RFC 2046, 5.1.1
BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
#: RFC 7578, 4.7: clients should send no other, and do not; a coded part is never taken as it is
PLAIN_ENCODINGS = ("", "7bit", "8bit", "binary")

#: content type and body of one part to its value
ReadPart = Callable[[bytes, bytes], Any]


def decode_form(
    body: bytes,
    parameters: Mapping[str, str],
    read_part: ReadPart,
    *,
    files: Set[str] = frozenset(),
    texts: Set[str] = frozenset(),
    lists: Set[str] = frozenset(),
) -> dict[str, Any]:
    """Return the value of every part by its name.

    :param files: names of parts that are a ``File``, whatever they say they are.
    :param texts: names of parts that are text, and never JSON.
    :param lists: names whose value is a list with an element for each part of that name; one
        part may also hold the whole list in JSON.

    :raises BodyMalformed: it is no form, or a part has no name, or two have one name.
    """
    if not body:
        raise BodyMalformed("body: empty")
    values: dict[str, list[Any]] = {}
    for part, content in _parts(body, parameters.get("boundary", "")):
        name = part.name
        if not name:
            raise BodyMalformed("body: a part has no name")
        if name in values and name not in lists:
            raise BodyMalformed(f"{name[:80]}: two parts of one name")
        _check_headers(name, part)
        values.setdefault(name, []).append(_value(name, part, content, read_part, files, texts))
    return {name: _whole(found, is_list=name in lists) for name, found in values.items()}


def _value(
    name: str, part: Any, content: bytes, read_part: ReadPart, files: Set[str], texts: Set[str]
) -> Any:
    if name in files:
        return File(part.filename or "", part.header("Content-Type", ""), content)
    return _text(name, content) if name in texts else _read(name, part, content, read_part)


def _whole(found: list[Any], *, is_list: bool) -> Any:
    is_one = len(found) == 1 and (not is_list or isinstance(found[0], list))
    return found[0] if is_one else found


def _parts(body: bytes, boundary: str) -> list[tuple[Any, bytes]]:
    if not BOUNDARY.fullmatch(boundary):
        raise BodyMalformed("Content-Type: boundary is missing, or not as RFC 2046 has it")
    parts: list[tuple[Any, bytearray]] = []
    try:
        with multipart.PushMultipartParser(
            boundary.encode(),
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
        return read_part((header or "application/octet-stream").encode(), content)
    except RequestError as error:
        raise type(error)(f"{name[:80]}: {error.detail}", error.errors) from None


def _check_headers(name: str, part: Any) -> None:
    headers = [header for header, _ in part.headerlist]
    if len(set(headers)) < len(headers):
        raise BodyMalformed(f"{name[:80]}: one header twice")
    if part.header("Content-Transfer-Encoding", "").strip().lower() not in PLAIN_ENCODINGS:
        raise UnknownMediaType(f"{name[:80]}: Content-Transfer-Encoding: only binary is taken")


def _json_or_text(name: str, content: bytes) -> Any:
    try:
        return decode_json(content)
    except BodyMalformed:
        return _text(name, content)


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BodyMalformed(f"{name[:80]}: not UTF-8") from None
