# SPDX-License-Identifier: Apache-2.0
"""Parses ``Content-Type`` and ``Accept``."""

import re
from typing import Any, NamedTuple

from servekit.errors import UnknownMediaType

__all__ = ["MediaRange", "parse_accept", "parse_content_type", "remember"]

TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110, 5.6.2
MEDIA_TYPE = re.compile(rf"[ \t]*({TOKEN}/{TOKEN})[ \t]*")
PARAMETER = re.compile(rf';[ \t]*(?:({TOKEN})=({TOKEN}|"(?:[^"\\]|\\.)*"))?[ \t]*')
QUALITY = re.compile(r"0(?:\.\d*)?|\.\d+|1(?:\.0*)?")  #: RFC 9110 has no ".2"
CACHED = 256  #: headers that a cache remembers; clients choose them, so there is a limit
CACHED_BYTES = 128
QUOTED_CHARS = 80  #: characters of a header, in an error


class MediaRange(NamedTuple):
    """One element of ``Accept``: ``image/*;q=0.5``."""

    name: str
    quality: float

    @property
    def is_concrete(self) -> bool:
        """Whether it names one media type."""
        return not self.name.endswith("/*")

    def matches(self, media_type: str) -> bool:
        """Whether *media_type* (concrete, lower case) lies in the range."""
        if self.is_concrete:
            return media_type == self.name
        return self.name == "*/*" or media_type.startswith(self.name[:-1])

    @property
    def specificity(self) -> int:
        """0 for ``*/*``, 1 for ``image/*``, 2 for ``image/png``; the highest one decides."""
        return 2 if self.is_concrete else int(self.name != "*/*")


def parse_content_type(header: bytes) -> tuple[str, dict[str, str]]:
    """Return the media type in lower case, and its parameters.

    :raises UnknownMediaType: the header cannot be parsed.
    """
    text = header.decode("latin-1")
    found = MEDIA_TYPE.match(text)
    parameters: dict[str, str] = {}
    position = found.end() if found else 0
    while found and position < len(text):
        parameter = PARAMETER.match(text, position)
        if not parameter:
            break
        position = parameter.end()
        if parameter[1]:
            name, value = parameter[1].lower(), parameter[2]
            found = found if name not in parameters else None  # a repeated name is ambiguous
            is_quoted = value.startswith('"')
            parameters[name] = re.sub(r"\\(.)", r"\1", value[1:-1]) if is_quoted else value
    if not found or position < len(text):
        raise UnknownMediaType(f"Content-Type: {text[:QUOTED_CHARS]!r} is not a media type")
    return found[1].lower(), parameters


def parse_accept(header: bytes) -> list[MediaRange]:
    """Return the ranges of *header* in its order, without those that cannot be parsed.

    An empty header accepts everything.
    """
    text = header.decode("latin-1").strip()
    if not text:
        return [MediaRange("*/*", 1.0)]
    ranges = [_parse_range(element) for element in text.split(",")]
    return [found for found in ranges if found]


def _parse_range(element: str) -> MediaRange | None:
    name, *parameters = element.split(";")
    if name.strip() == "*":  # older clients of Java send it
        name = "*/*"
    if not MEDIA_TYPE.fullmatch(name):
        return None
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.strip().partition("=")
        if key.lower() == "q":
            if not QUALITY.fullmatch(value):
                return None
            quality = float(value)
    return MediaRange(name.strip().lower(), quality)


def remember(cache: dict[bytes, Any], header: bytes, value: Any) -> None:
    """Keep *value* unless the header is long; empty the cache when it is full."""
    if len(cache) >= CACHED:
        cache.clear()
    if len(header) <= CACHED_BYTES:
        cache[header] = value
