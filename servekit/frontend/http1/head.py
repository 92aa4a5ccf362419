# SPDX-License-Identifier: Apache-2.0
"""The bytes before the body of an HTTP/1.1 response."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from servekit.extension.http import NO_LENGTH

if TYPE_CHECKING:
    from servekit.extension.http import HttpResponse
    from servekit.frontend.exchange.date import HttpDate

__all__ = ["CONTINUE", "HeadWriter"]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
REASONS = {status.value: status.phrase for status in HTTPStatus}
REASONS[413] = "Content Too Large"  # RFC 9110; Python 3.11 still has the old names
REASONS[414] = "URI Too Long"
REASONS[422] = "Unprocessable Content"
MAX_KNOWN = 64


class HeadWriter:
    """Writes status lines and header lines, without the empty line that ends them."""

    __slots__ = ("_date", "_made_at", "_starts")

    def __init__(self, date: HttpDate) -> None:
        """State *date* in each response."""
        self._date = date
        self._made_at = b""
        #: by media type those of 200, by both those of other statuses; of this second
        self._starts: dict[str | tuple[int, str], bytes] = {}

    def head(self, response: HttpResponse) -> bytes:
        """Return the head of *response*, the lines of the connection itself left out."""
        status, media_type = response.status, response.media_type
        if self._made_at is not self._date.value:
            self._made_at = self._date.value
            self._starts.clear()
        start = self._starts.get(media_type if status == 200 else (status, media_type))
        if start is None:
            start = self._start(status, media_type)
        if response.timing and not response.fields and response.length is None:
            return b"%b%b\r\nServer-Timing: %b\r\nContent-Length: %d\r\n" % (
                start,
                response.request_id.encode(),
                response.timing,
                len(response.body),
            )
        return start + _rest(response)

    def _start(self, status: int, media_type: str) -> bytes:
        """Return the head up to the value of ``X-Request-Id``."""
        kind = b"Content-Type: %b\r\n" % media_type.encode() if media_type else b""
        start = b"HTTP/1.1 %d %b\r\nDate: %b\r\n%bX-Request-Id: " % (
            status,
            REASONS.get(status, "Unknown").encode(),
            self._made_at,
            kind,
        )
        if len(self._starts) < MAX_KNOWN:
            self._starts[media_type if status == 200 else (status, media_type)] = start
        return start


def _rest(response: HttpResponse) -> bytes:
    """Return the value of ``X-Request-Id``, and the lines after it."""
    lines = [response.request_id.encode("latin-1"), b"\r\n"]
    lines += [f"{name}: {value}\r\n".encode("latin-1") for name, value in response.fields]
    if response.timing:
        lines.append(b"Server-Timing: %b\r\n" % response.timing)
    length = response.content_length
    if length != NO_LENGTH:
        lines.append(b"Content-Length: %d\r\n" % length)
    return b"".join(lines)
