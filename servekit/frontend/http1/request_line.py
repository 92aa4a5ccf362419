# SPDX-License-Identifier: Apache-2.0
"""Request lines, which llhttp reads too leniently. No socket, no clock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from servekit.errors import NotSupported, RequestError
from servekit.frontend.http.fields import METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from servekit.errors import ServekitError
    from servekit.extension.http import HttpRequest

__all__ = ["HEAD_BEGUN", "LineChecker", "end_of_head", "known_lines", "starts_of"]

#: RFC 9112 3: separated by single spaces; llhttp accepts more spaces, other protocols, and methods
#: of these. PRI begins the preface of HTTP/2
LINE = re.compile(
    rb"(?:%b|PRI) [^\x00-\x20]+ HTTP/[0-9]\.[0-9]\r\n" % b"|".join(map(re.escape, METHODS))
)
OTHER_METHOD = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+ [^\x00-\x20]+ HTTP/[0-9]\.[0-9]\r\n")
OTHER_PROTOCOLS = (b"RTSP/", b"ICE/")  #: accepted by llhttp
END = b"\r\n\r\n"  #: of a header section
HEAD_BEGUN = -1  #: in place of the bytes that a body lacks: a header section continues
MAX_KNOWN_LINES = 256
MAX_KNOWN_BYTES = 256
TAIL_BYTES = 3  #: kept of a piece, as the end of a header section may begin in them

#: request lines found well-formed; bounded, shared by all connections
known_lines: set[bytes] = set()


class LineChecker:
    """Checks the request lines of one connection, however its bytes are split into pieces."""

    __slots__ = ("_tail", "partial")

    def __init__(self) -> None:
        """No line has begun."""
        self.partial = b""  #: a request line that is not whole
        self._tail = b""  #: the last bytes of a header section that is not whole

    def check(self, data: bytes) -> ServekitError | None:
        """Return the error of the request line that *data* begins, or continues."""
        line = self.partial + data
        while line[:2] == b"\r\n":  # empty lines before it (RFC 9112 2.2)
            line = line[2:]
        end = line.find(b"\n") + 1
        self.partial = b"" if end else line
        return _check_line(line[:end]) if end else None

    def text(self, data: bytes, left: int) -> bytes:
        """Return *data*, after the last bytes before it if a header section continues in it."""
        return self._tail + data if left == HEAD_BEGUN else data

    def check_later(
        self, text: bytes, left: int, requests: list[HttpRequest]
    ) -> tuple[int, ServekitError] | None:
        """Check the lines that follow whole *requests* in *text*.

        :param left: bytes of a body that *text* begins with, or ``HEAD_BEGUN``.
        :return: how many requests precede the first bad line, and its error.
        """
        for number, start in enumerate(starts_of(text, left, requests), 1):
            if not LINE.match(text, start):
                error = self.check(text[start:])
                if error is not None:
                    return number, error
        return None

    def keep_tail(self, text: bytes) -> None:
        """Keep the last bytes of *text*: a header section that is not whole."""
        self._tail = text[-TAIL_BYTES:]


def _check_line(line: bytes) -> ServekitError | None:
    """Return the error of a request *line* that llhttp would accept.

    llhttp rejects everything else: it is lenient about whitespace and about related protocols.
    """
    if not LINE.fullmatch(line):
        if b"  " in line or line[:1] in (b"\r", b"\n"):
            return RequestError("request line: not separated by single spaces")
        if OTHER_METHOD.fullmatch(line):
            return NotSupported("method: not known here")
        is_other = line.rpartition(b" ")[2].startswith(OTHER_PROTOCOLS)
        return RequestError("request line: the protocol is not HTTP") if is_other else None
    if len(known_lines) < MAX_KNOWN_LINES and len(line) <= MAX_KNOWN_BYTES:
        known_lines.add(line)
    return None


def starts_of(text: bytes, left: int, requests: Iterable[HttpRequest]) -> Iterator[int]:
    """Yield the positions in *text* after each of *requests*, none of which is chunked.

    :param left: bytes of the body of the first that *text* begins with, or ``HEAD_BEGUN``.
    """
    at = 0
    for request in requests:
        if left > 0:
            at = left
        else:
            size = int(request.headers.get(b"content-length", 0))
            at = end_of_head(text, at, is_begun=left == HEAD_BEGUN) + size
        left = 0
        yield at


def end_of_head(text: bytes, start: int, *, is_begun: bool) -> int:
    """Return where the header section ends that *is_begun* or begins at *start*."""
    while not is_begun and text[start : start + 1] in (b"\r", b"\n"):
        start += 1  # an empty line before it
    return text.index(END, start) + len(END)
