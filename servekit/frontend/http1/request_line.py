# SPDX-License-Identifier: Apache-2.0
"""Request lines, and where in a piece of a connection they are. No socket, no clock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from servekit.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from servekit.extension.http import HttpRequest

__all__ = ["HEAD_BEGUN", "LINE", "check_line", "end_of_head", "known_lines", "starts_of"]

#: RFC 9112 3: one space each, and the line's end; llhttp takes several, and other protocols
LINE = re.compile(rb"[^\x00-\x20]+ [^\x00-\x20]+ HTTP/[0-9]\.[0-9]\r\n")
OTHERS = (b"RTSP/", b"ICE/")  #: that llhttp reads too
END = b"\r\n\r\n"  #: of a header section
HEAD_BEGUN = -1  #: stands for the bytes that are left of a body, where a header section goes on
MAX_KNOWN_LINES = 256
MAX_KNOWN_BYTES = 256

#: request lines found well-formed; bounded, shared by all connections
known_lines: set[bytes] = set()


def check_line(line: bytes) -> RequestError | None:
    """Return what is wrong with the request *line*, if llhttp would take it.

    It sees to all else: what it takes too much is whitespace, and protocols that resemble HTTP.
    """
    if not LINE.fullmatch(line):
        if b"  " in line or line[:1] in (b"\r", b"\n"):
            return RequestError("request line: not separated by single spaces")
        is_other = line.rpartition(b" ")[2].startswith(OTHERS)
        return RequestError("request line: the protocol is not HTTP") if is_other else None
    if len(known_lines) < MAX_KNOWN_LINES and len(line) <= MAX_KNOWN_BYTES:
        known_lines.add(line)
    return None


def starts_of(text: bytes, left: int, requests: Iterable[HttpRequest]) -> Iterator[int]:
    """Yield where in *text* what follows each of *requests* begins; none of them is chunked.

    :param left: bytes that *text* begins with of the body of the first, or ``HEAD_BEGUN``.
    """
    place = 0
    for request in requests:
        if left > 0:
            place = left
        else:
            size = int(request.headers.get(b"content-length", 0))
            place = end_of_head(text, place, is_begun=left == HEAD_BEGUN) + size
        left = 0
        yield place


def end_of_head(text: bytes, start: int, *, is_begun: bool) -> int:
    """Return where the header section ends that *is_begun* or begins at *start*."""
    while not is_begun and text[start : start + 1] in (b"\r", b"\n"):
        start += 1  # an empty line before it
    return text.index(END, start) + len(END)
