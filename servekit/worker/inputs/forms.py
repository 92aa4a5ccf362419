# SPDX-License-Identifier: Apache-2.0
"""Forms and queries: each part is one input field, read by its content type or its rule."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import multipart

from servekit.errors import BodyMalformed, InputError, RequestError, UnknownMediaType
from servekit.types import File
from servekit.worker.inputs.form_rules import NO_RULES, FormRules, PartRule, json_or_text

__all__ = ["FORM", "MAX_PARTS", "decode_form", "decode_query"]

FORM = "multipart/form-data"
MAX_PARTS = 128
MAX_PART_HEADERS = 8
MAX_HEADER_BYTES = 4096
QUOTED_CHARS = 80  #: characters of a name, in an error
#: RFC 2046, 5.1.1
BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
#: one parameter of Content-Disposition
PARAMETER_NAME = re.compile(r';[ \t]*([^\s=;"]+)[ \t]*=[ \t]*(?:"(?:[^"\\]|\\.)*"|[^;"\s]*)')
SYNONYMS = {"name*": "name"}
#: RFC 7578, 4.7 discourages any other, and the content is never decoded
PLAIN_ENCODINGS = ("", "7bit", "8bit", "binary")

#: a file in JSON is an object with this field; a form may have the same field as a part
FILE_IN_JSON = "b64"

SCALARS = (str, bool, int, float)  #: elements of an array, one part for each

#: content type and body of one part to its value
ReadPart = Callable[[bytes, bytes], Any]


def decode_form(
    body: bytes, parameters: Mapping[str, str], read_part: ReadPart, rules: FormRules = NO_RULES
) -> Any:
    """Return the value of every part by its name, or that of the only one if *rules* say so.

    :raises BodyMalformed: it is not a form, a part has no name, or two have the same name.
    :raises InputError: the parts of one name are the input, and there are other names, or none.
    """
    if not body:
        raise BodyMalformed("body: empty")
    parts = _parts(body, parameters.get("boundary", ""))
    names = {part.name for part, _ in parts}
    alone = None if FILE_IN_JSON in names else rules.alone
    values: dict[str, list[Any]] = {}
    for part, content in parts:
        name = part.name or ""
        rule = alone or rules.rule(name)
        _check_headers(name, part)
        if not name:
            raise BodyMalformed("body: a part has no name")
        if name in values and not rule.is_list:
            raise BodyMalformed(f"{name[:QUOTED_CHARS]}: duplicate part name")
        values.setdefault(name, []).append(_value(name, part, content, read_part, rule))
    joined = {name: _joined(each, alone or rules.rule(name)) for name, each in values.items()}
    if alone is None:
        return joined
    if len(joined) != 1:
        raise InputError(f"a form of {len(joined)} names, expected the parts of one")
    return next(iter(joined.values()))


def decode_query(body: bytes, rules: FormRules = NO_RULES) -> dict[str, Any]:
    """Return the value of every parameter of a query by its name, read as the parts of a form.

    :raises BodyMalformed: it is not UTF-8, holds too many, or two that have the same name.
    """
    try:
        found = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARTS
        )
    except ValueError:  # includes UnicodeDecodeError
        raise BodyMalformed(f"query: not UTF-8, or more than {MAX_PARTS} parameters") from None
    values: dict[str, list[Any]] = {}
    for name, text in found:
        rule = rules.rule(name)
        if name in values and not rule.is_list:
            raise BodyMalformed(f"query: {name[:QUOTED_CHARS]}: duplicate parameter")
        values.setdefault(name, []).append(rule.read(text))
    return {name: _joined(each, rules.rule(name)) for name, each in values.items()}


def _value(name: str, part: Any, content: bytes, read_part: ReadPart, rule: PartRule) -> Any:
    header = part.header("Content-Type", "")
    if rule.is_file:
        return File(part.filename or "", header, content)
    if rule.is_text or (not header and part.filename is None):
        try:
            return rule.read(content.decode())
        except UnicodeDecodeError:
            raise BodyMalformed(f"{name[:QUOTED_CHARS]}: not UTF-8") from None
    try:
        value = read_part((header or "application/octet-stream").encode(), content)
    except RequestError as error:
        raise type(error)(f"{name[:QUOTED_CHARS]}: {error.detail}", error.errors) from None
    is_plain = part.filename is None and header.lstrip().lower().startswith("text/plain")
    return rule.read(value) if rule.is_typed and is_plain and isinstance(value, str) else value


def _joined(found: list[Any], rule: PartRule) -> Any:
    """Return the value of all the parts of one name."""
    if not rule.is_list:
        return found[0]
    only = found[0]
    if len(found) > 1 or rule.is_file or rule.is_text:
        return found
    if isinstance(only, list) or (rule.is_array and not isinstance(only, SCALARS)):
        return only
    if not (isinstance(only, str) and only.lstrip().startswith("[")):
        return found
    inside = json_or_text(only)
    is_list = isinstance(inside, list) and all(isinstance(each, str) for each in inside)
    return inside if is_list else found


def _parts(body: bytes, boundary: str) -> list[tuple[Any, bytes]]:
    if not BOUNDARY.fullmatch(boundary):
        raise BodyMalformed("Content-Type: boundary is missing, or not valid by RFC 2046")
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
    """Return *body* without the white space that RFC 2046 allows after a boundary."""
    delimiter = b"--" + boundary
    if not any(delimiter + end in body for end in (b" ", b"\t", b"-- ", b"--\t")):
        return body
    padded = rb"((?:\A|\r\n)%b(?:--)?)[ \t]++(?=\r\n|\Z)" % re.escape(delimiter)
    return re.sub(padded, rb"\1", body)


def _check_headers(name: str, part: Any) -> None:
    headers = [header for header, _ in part.headerlist]
    if len(set(headers)) < len(headers):
        raise BodyMalformed(f"{name[:QUOTED_CHARS]}: duplicate header")
    disposition = part.header("Content-Disposition", "").lower()
    given = [SYNONYMS.get(each, each) for each in PARAMETER_NAME.findall(disposition)]
    if len(set(given)) < len(given):
        shown = ", ".join(given)
        raise BodyMalformed(f"{name[:QUOTED_CHARS]}: Content-Disposition repeats one of {shown}")
    if part.header("Content-Transfer-Encoding", "").strip().lower() not in PLAIN_ENCODINGS:
        raise UnknownMediaType(
            f"{name[:QUOTED_CHARS]}: Content-Transfer-Encoding: only binary is taken"
        )
