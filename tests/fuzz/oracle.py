# SPDX-License-Identifier: Apache-2.0
"""What must be true of the answers to any stream of bytes."""

import re
import socket
from contextlib import suppress
from typing import NamedTuple

from tests.fuzz.reference import Request, read

__all__ = ["Answer", "ask", "judge"]

PATIENCE_S = 60.0
STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) [ -~]*\r\n")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([ -~]*)\r\n")
TELLTALES = re.compile(rb"Traceback|File \"|site-packages|\.py\b|/tmp/|/usr/")


class Answer(NamedTuple):
    """One answer."""

    status: int
    fields: dict[bytes, bytes]
    body: bytes

    @property
    def closes(self) -> bool:
        return self.fields.get(b"connection", b"").lower() == b"close"


def ask(port: int, pieces: list[bytes]) -> list[Answer]:
    """Send *pieces* and return every answer; the client waits for what it may expect."""
    clean, _ = read(b"".join(pieces))
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError):  # it may close while we send, after its last answer
            for piece in pieces:
                sock.sendall(piece)
        try:
            while count_final(received, clean) < len(clean) and (piece := sock.recv(65536)):
                received += piece
            with suppress(OSError):  # as above
                sock.shutdown(socket.SHUT_WR)
            while piece := sock.recv(65536):
                received += piece
        except TimeoutError:
            raise AssertionError(f"no answer within {PATIENCE_S} s; {received!r} so far") from None
        except ConnectionError:
            pass  # closed with what we sent after the end unread; what it said is in received
    return list(answers(received, clean))


def count_final(received: bytes, clean: list[Request]) -> int:
    try:
        return len(list(answers(received, clean)))
    except AssertionError:
        return 0  # the last one is not whole yet


def answers(received: bytes, clean: list[Request]):
    """Yield the final answers in *received*, each well-formed to the last byte."""
    methods = iter([request.method for request in clean])
    while received:
        line = STATUS_LINE.match(received)
        assert line, f"no status line: {received[:80]!r}"
        status, rest = int(line[1]), received[line.end() :]
        fields: dict[bytes, bytes] = {}
        while not rest.startswith(b"\r\n"):
            field = FIELD.match(rest)
            assert field, f"no header field: {rest[:80]!r}"
            assert field[1].lower() not in fields, f"{field[1]!r} twice"
            fields[field[1].lower()] = field[2]
            rest = rest[field.end() :]
        received = rest[2:]
        if status < 200:
            assert status == 100
            continue
        method = next(methods, b"")
        size = int(fields.get(b"content-length", b"0"))
        assert b"transfer-encoding" not in fields
        assert status == 204 or b"content-length" in fields
        may_be_head = method in (b"HEAD", b"")  # of a doubtful request nobody knows
        if may_be_head and (method or not is_end(received[size:], len(received) - size)):
            size = size if method and not is_end(received, len(received)) else 0
        assert len(received) >= size, "the body is cut"
        body, received = received[:size], received[size:]
        yield Answer(status, fields, body)


def is_end(rest: bytes, length: int) -> bool:
    """Whether an answer may end before *rest*, of *length*: negative if bytes are missing."""
    return length >= 0 and (not rest or rest.startswith(b"HTTP/1.1 "))


def judge(stream: bytes, found: list[Answer]) -> None:
    """Assert that *found* is what *stream* deserves."""
    clean, doubtful = read(stream)
    assert len(found) >= len(clean), "a request was not answered"
    for request, answer in zip(clean, found, strict=False):
        if request[:2] == (b"POST", b"/echo/predict"):
            assert (answer.status, answer.body) == (200, request.body), "an answer of another"
    rest = found[len(clean) :]
    assert not rest or (doubtful and not (clean and clean[-1].is_last)), "an answer too many"
    is_over = not doubtful.strip(b"\r\n") or (clean and clean[-1].is_last)
    assert rest or is_over, "silence where a refusal was due"
    for answer in found:
        assert answer.status < 500 or answer.status in (501, 503, 505), answer
        assert not TELLTALES.search(answer.body)
    assert not any(answer.closes for answer in found[:-1]), "an answer after the last"
