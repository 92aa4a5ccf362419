# SPDX-License-Identifier: Apache-2.0
"""The bytes of answers: status lines, headers, problem details."""

from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus

import msgspec

from servekit.errors import MethodNotAllowed, ServekitError, Unauthorized, UnknownCoding, problem_of
from servekit.ipc.channel import ChannelClosed
from servekit.service.response import check_headers, check_status

__all__ = [
    "CONTINUE",
    "AnswerHeads",
    "options_head",
    "own_head",
    "problem_answer",
    "status_line",
]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_REASONS[413] = "Content Too Large"  # RFC 9110; Python 3.11 still has the old names
_REASONS[414] = "URI Too Long"
_REASONS[422] = "Unprocessable Content"


def status_line(status: int) -> bytes:
    """Return ``HTTP/1.1 404 Not Found`` with its line end."""
    return b"HTTP/1.1 %d %b\r\n" % (status, _REASONS.get(status, "Unknown").encode())


class AnswerHeads:
    """The first lines of a 200 for each media type, made once a second for their ``Date``."""

    def __init__(self) -> None:
        self._heads: dict[str, bytes] = {}
        self.date = b""
        self.renew()

    def renew(self) -> None:
        """Take the present second into ``Date`` (RFC 9110 6.6.1)."""
        self._heads.clear()
        self.date = b"Date: %b\r\n" % formatdate(usegmt=True).encode()

    def ok(self, media_type: str) -> bytes:
        """Return the head of a 200 up to the value of ``X-Request-Id``.

        :raises ChannelClosed: a worker named *media_type*, and it is none.
        """
        head = self._heads.get(media_type)
        if head is None:
            if not (media_type.isascii() and media_type.isprintable()):
                raise ChannelClosed("the peer sent what is no media type")
            head = b"HTTP/1.1 200 OK\r\n%bContent-Type: %b\r\nX-Request-Id: " % (
                self.date,
                media_type.encode(),
            )
            self._heads[media_type] = head
        return head


def own_head(head: bytes, status: int, headers: Sequence[tuple[str, str]]) -> bytes:
    """Return the *head* of a 200 with the status and the headers that a service gave.

    :raises ChannelClosed: a worker let pass what it should have refused.
    """
    try:
        check_status(status)
        check_headers(headers)
    except ValueError as error:
        raise ChannelClosed(f"the peer sent what is no answer: {error}") from error
    lines = b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in headers)
    return status_line(status) + lines + head.partition(b"\r\n")[2]


def options_head(request_id: str, date: bytes) -> bytes:
    """Return the head of the answer to ``OPTIONS *``: what some route of ours takes."""
    line = b"Allow: GET, HEAD, OPTIONS, POST\r\nX-Request-Id: "
    return b"%b%b%b%b\r\n" % (status_line(204), date, line, request_id.encode("latin-1"))


def problem_answer(error: ServekitError, request_id: str, lines: bytes, *, closes: bool) -> bytes:
    """Return a whole answer with the problem details of *error* (RFC 9457).

    :param lines: header lines, ``Date`` among them.
    """
    kind = type(error)
    body = msgspec.json.encode(problem_of(error, request_id))
    extra = b"Connection: close\r\n" if closes else b""
    if error.retry_after_s is not None:
        extra += b"Retry-After: %d\r\n" % error.retry_after_s
    if isinstance(error, MethodNotAllowed):
        extra += b"Allow: %b\r\n" % error.allow.encode()
    if isinstance(error, Unauthorized):
        extra += b"WWW-Authenticate: %b\r\n" % error.challenge.encode()
    if isinstance(error, UnknownCoding):
        extra += b"Accept-Encoding: %b\r\n" % ", ".join(error.accepted).encode()
    return (
        b"%b%bContent-Type: application/problem+json\r\nX-Request-Id: %b\r\n%b"
        b"Content-Length: %d\r\n\r\n%b"
    ) % (status_line(kind.status), lines, request_id.encode("latin-1"), extra, len(body), body)
