# SPDX-License-Identifier: Apache-2.0
"""Messages of OTLP as bytes: the few that traces need, without the classes of protobuf.

The numbers of fields are those of ``opentelemetry/proto/trace/v1/trace.proto``. A message is its
fields, one after another; inside another message it is a field, which begins with its length.
Span ids are integers in little-endian order, so that one ``Struct`` packs them with the times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

__all__ = [
    "CHILD",
    "END",
    "INTERNAL",
    "KINDS",
    "PARENT_ID",
    "ROOT",
    "SERVER",
    "SPAN_ID",
    "START",
    "TRACE_ID",
    "RequestFrame",
    "SpanForm",
    "TextAttribute",
    "attributes_of",
    "link",
]

BYTES: Final = 2  #: wire type of text, bytes and messages
MASK: Final = (1 << 64) - 1
INT64: Final = range(-(1 << 63), 1 << 63)
MAX_DEPTH: Final = 8  #: levels of lists; what is deeper becomes text
DOUBLE: Final = Struct("<Bd")
LINK: Final = Struct("<2s2s16s2sQBI")
LINK_HEAD: Final = bytes([13 << 3 | BYTES, LINK.size - 2])
FLAGS: Final = Struct("<2sI")
#: the fields that each span has its own values for, each after its tag: ``TRACE_ID``,
#: ``SPAN_ID``, ``START``, ``END``, and for a ``CHILD`` also ``PARENT_ID``
ROOT: Final = Struct("<2s16s2sQBQBQ")
CHILD: Final = Struct("<2s16s2sQBQBQ2sQ")
TRACE_ID, SPAN_ID, START, END, PARENT_ID = b"\x0a\x10", b"\x12\x08", 0x39, 0x41, b"\x22\x08"

SAMPLED, IS_REMOTE_KNOWN, IS_REMOTE = 0x001, 0x100, 0x200  #: flags of a span or a link
KINDS: Final = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
INTERNAL, SERVER = KINDS["internal"], KINDS["server"]
#: numbers of one or two bytes
SHORT: Final = [
    bytes([each & 0x7F | 0x80, each >> 7] if each > 0x7F else [each]) for each in range(0x1000)
]
SHORT_TEXT: Final = 64  #: bytes: every length around it takes one byte
FAILED: Final = b"\x7a\x02\x18\x02"  #: the field ``status``, with the code of an error


class SpanForm(NamedTuple):
    """A span without its ids and times, which go between *head* and *tail*."""

    head: bytes  #: tag and length
    tail: bytes
    size: int  #: bytes after the head

    def more(self, fields: bytes) -> SpanForm:
        """Return the form with more *fields*."""
        size = self.size + len(fields)
        return SpanForm(b"\x12" + varint(size), self.tail + fields, size)

    @classmethod
    def of(
        cls,
        name: str,
        fields: bytes = b"",
        *,
        fixed: Struct = CHILD,
        kind: int = INTERNAL,
        is_failed: bool = False,
        is_parent_remote: bool = False,
    ) -> SpanForm:
        """Return the form of spans called *name* with more *fields*: attributes, links.

        :param fixed: ``ROOT`` or ``CHILD``, what packs the ids and times.
        """
        flags = SAMPLED | IS_REMOTE_KNOWN | (IS_REMOTE if is_parent_remote else 0)
        tail = field(5, _text(name)) + b"\x30%c" % kind + FLAGS.pack(b"\x85\x01", flags) + fields
        if is_failed:
            tail += FAILED
        size = fixed.size + len(tail)
        return cls(b"\x12" + varint(size), tail, size)  # the field ``spans`` of ScopeSpans


def link(trace_id: bytes, span_id: int, flags: int = SAMPLED) -> bytes:
    """Return a link to another span, as a field of a span."""
    flags |= IS_REMOTE_KNOWN
    return LINK.pack(LINK_HEAD, TRACE_ID, trace_id, SPAN_ID, span_id, 0x35, flags)


def attributes_of(attributes: Mapping[str, Any], number: int = 9) -> bytes:
    """Return *attributes* as fields of a span, or as fields with another *number*."""
    return b"".join(
        field(number, field(1, _text(name)) + field(2, _any(value)))
        for name, value in attributes.items()
    )


class RequestFrame:
    """The request around spans: the resource and the scope are encoded once."""

    def __init__(self, resource: Mapping[str, Any], schema: str, scope: tuple[str, str]) -> None:
        """Say that the spans are of *resource*, and were made by *scope*, a name and a version.

        :param schema: URL of the schema of the resource; "" if it has none.
        """
        name, version = map(_text, scope)
        self._resource = field(1, attributes_of(resource, 1))
        self._scope = field(1, field(1, name) + field(2, version))
        self._schema = field(3, _text(schema)) if schema else b""

    def around(self, spans: bytes) -> bytes:
        """Return the ``ExportTraceServiceRequest`` of *spans*."""
        return field(1, self._resource + field(2, self._scope + spans) + self._schema)


class TextAttribute:
    """An attribute of spans that each has its own text for."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        """Encode *name*, which is short."""
        self._name = field(1, _text(name))

    def of(self, value: str) -> bytes:
        """Return the field of a span with *value*."""
        text = _text(value)
        size = len(text)
        if size > SHORT_TEXT:
            return field(9, self._name + field(2, field(1, text)))
        sizes = len(self._name) + size + 4, self._name, size + 2, size
        return b"\x4a%c%b\x12%c\x0a%c%b" % (*sizes, text)


def field(number: int, content: bytes) -> bytes:
    """Return field *number*, below 16, of a message: text, bytes, or another message."""
    return b"%c%b%b" % (number << 3 | BYTES, varint(len(content)), content)


def varint(value: int) -> bytes:
    """Return *value*, which is not negative, in seven bits a byte."""
    if value < len(SHORT):
        return SHORT[value]
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _any(value: Any, depth: int = 0) -> bytes:
    """Return *value* as an ``AnyValue``; what OTLP has no type for becomes text."""
    match value:
        case bool():
            return b"\x10\x01" if value else b"\x10\x00"
        case int() if value in INT64:
            return b"\x18" + varint(value & MASK)
        case float():
            return DOUBLE.pack(0x21, value)
        case bytes():
            return field(7, value)
        case Sequence() if not isinstance(value, str) and depth < MAX_DEPTH:
            return field(5, b"".join(field(1, _any(each, depth + 1)) for each in value))
        case _:
            return field(1, _text(str(value)))


def _text(value: str) -> bytes:
    return value.encode("utf-8", "replace")
