# SPDX-License-Identifier: Apache-2.0
"""``multipart/form-data``: one part per input, each read as its own type or its field says."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import multipart

from servekit.errors import BodyMalformed, InputError, RequestError, UnknownMediaType
from servekit.types import File
from servekit.worker.inputs.form_rules import NO_RULES, FormRules, PartRule, json_or_text

__all__ = ["FORM", "MAX_PARTS", "decode_form"]

FORM = "multipart/form-data"
MAX_PARTS = 128
MAX_PART_HEADERS = 8
MAX_HEADER_BYTES = 4096
#: RFC 2046, 5.1.1
BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
#: RFC 7578, 4.7: clients should send no other, and do not; a coded part is never taken as it is
#: of Content-Disposition
PARAMETER_NAME = re.compile(r';[ \t]*([^\s=;"]+)[ \t]*=[ \t]*(?:"(?:[^"\\]|\\.)*"|[^;"\s]*)')
DOUBLES = {"name*": "name"}  #: another way to say the same
PLAIN_ENCODINGS = ("", "7bit", "8bit", "binary")

#: what the form of a file in JSON has; a form of it may have the same parts
FILE_IN_JSON = "b64"

SCALARS = (str, bool, int, float)  #: of which an array is made, one part for each

#: content type and body of one part to its value
ReadPart = Callable[[bytes, bytes], Any]


def decode_form(
    body: bytes, parameters: Mapping[str, str], read_part: ReadPart, rules: FormRules = NO_RULES
) -> Any:
    """Return the value of every part by its name, or the only one if the input is not a mapping.

    :param rules: what the parts are to the type of the input.

    :raises BodyMalformed: it is no form, or a part has no name, or two have one name.
    :raises InputError: parts of one name are the input, and there are others, or none.
    """
    if not body:
        raise BodyMalformed("body: empty")
    found = _parts(body, parameters.get("boundary", ""))
    names = {part.name for part, _ in found}
    alone = None if FILE_IN_JSON in names else rules.alone
    values: dict[str, list[Any]] = {}
    for part, content in found:
        name = part.name
        rule = alone or rules.rule(name or "")
        _check_headers(name or "", part)
        if not name:
            raise BodyMalformed("body: a part has no name")
        if name in values and not rule.is_list:
            raise BodyMalformed(f"{name[:80]}: two parts of one name")
        values.setdefault(name, []).append(_value(name, part, content, read_part, rule))
    whole = {name: _whole(each, alone or rules.rule(name)) for name, each in values.items()}
    if alone is None:
        return whole
    if len(whole) != 1:
        raise InputError(f"a form of {len(whole)} names, expected the parts of one")
    return next(iter(whole.values()))


def _value(name: str, part: Any, content: bytes, read_part: ReadPart, rule: PartRule) -> Any:
    if rule.is_file:
        return File(part.filename or "", part.header("Content-Type", ""), content)
    header = part.header("Content-Type", "")
    if rule.is_text or (not header and part.filename is None):
        return rule.read(_text(name, content))
    value = _read(name, header, content, read_part)
    is_plain = part.filename is None and header.lstrip().lower().startswith("text/plain")
    return rule.read(value) if rule.is_typed and is_plain and isinstance(value, str) else value


def _whole(found: list[Any], rule: PartRule) -> Any:
    """Return the value of all parts of one name."""
    if not rule.is_list:
        return found[0]
    if len(found) > 1 or rule.is_file or rule.is_text:
        return found
    only = found[0]
    if rule.is_array and not isinstance(only, SCALARS):
        return only
    if isinstance(only, list) or not (isinstance(only, str) and only.lstrip().startswith("[")):
        return only if isinstance(only, list) else found
    inside = json_or_text(only)
    is_list = isinstance(inside, list) and all(isinstance(each, str) for each in inside)
    return inside if is_list else found


def _parts(body: bytes, boundary: str) -> list[tuple[Any, bytes]]:
    if not BOUNDARY.fullmatch(boundary):
        raise BodyMalformed("Content-Type: boundary is missing, or not as RFC 2046 has it")
    body = _without_padding(body, boundary.encode())
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


def _without_padding(body: bytes, boundary: bytes) -> bytes:
    """Return *body* without the white space that RFC 2046 lets stand behind a boundary."""
    delimiter = b"--" + boundary
    if not any(delimiter + end in body for end in (b" ", b"\t", b"-- ", b"--\t")):
        return body
    padded = rb"((?:\A|\r\n)%b(?:--)?)[ \t]++(?=\r\n|\Z)" % re.escape(delimiter)
    return re.sub(padded, rb"\1", body)


def _read(name: str, header: str, content: bytes, read_part: ReadPart) -> Any:
    """Read a file, or a part that says its type, by its codec."""
    try:
        return read_part((header or "application/octet-stream").encode(), content)
    except RequestError as error:
        raise type(error)(f"{name[:80]}: {error.detail}", error.errors) from None


def _check_headers(name: str, part: Any) -> None:
    headers = [header for header, _ in part.headerlist]
    if len(set(headers)) < len(headers):
        raise BodyMalformed(f"{name[:80]}: one header twice")
    disposition = part.header("Content-Disposition", "").lower()
    said = [DOUBLES.get(each, each) for each in PARAMETER_NAME.findall(disposition)]
    if len(set(said)) < len(said):
        raise BodyMalformed(f"{name[:80]}: Content-Disposition says one of {', '.join(said)} twice")
    if part.header("Content-Transfer-Encoding", "").strip().lower() not in PLAIN_ENCODINGS:
        raise UnknownMediaType(f"{name[:80]}: Content-Transfer-Encoding: only binary is taken")


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BodyMalformed(f"{name[:80]}: not UTF-8") from None
