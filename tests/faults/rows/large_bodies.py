# SPDX-License-Identifier: Apache-2.0
"""Bodies that are far too large."""

from __future__ import annotations

import math
import select
import socket
import struct
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.http_answer import is_whole
from tests.faults import procfs
from tests.faults.figures import Figure, at_most, equal, none
from tests.faults.stage import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.stage import Stage

KIB, MIB = 2**10, 2**20
LIMIT = 10 * MIB  #: ``--max-body``
POST = "POST /work/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
DECLARED = POST + "Content-Length: 1000000000\r\n"
CHUNKED = (POST + "Transfer-Encoding: chunked\r\n\r\n").encode()
PIECE = b"x" * 65_536
WAIT_S = 60.0
ACKED = struct.Struct("@Q")
ACKED_AT = 120  #: ``tcpi_bytes_acked`` in ``struct tcp_info`` of Linux


class Upload(NamedTuple):
    """What became of one upload."""

    answer: bytes
    answered_s: float  #: since the header section was sent
    taken_bytes: int  #: that the server's kernel had acknowledged by then; it may have read less
    is_closed: bool  #: in order, after the answer


def large_bodies(stage: Stage) -> Iterator[Figure]:
    """A client can read the 413 for a body of 1 GB at once, although it keeps sending.

    1 GB declared, every other client asking first (``Expect: 100-continue``), the rest sending
    until the answer is there; then 1 GB in chunks, refused where the limit is passed.
    """
    count = stage.count(100, 6)
    with stage.server("--models", MODELS / "work", f"--max-body={LIMIT}") as server:
        front_end = server.pid_of("front-end")
        before = procfs.rss_bytes(front_end)
        asking = DECLARED + "Expect: 100-continue\r\n\r\n"
        asked = [upload(server.port, asking.encode(), b"") for _ in range(count // 2)]
        sent = [upload(server.port, f"{DECLARED}\r\n".encode(), PIECE) for _ in range(count // 2)]
        more = (procfs.rss_bytes(front_end) - before) / MIB
        chunk = b"10000\r\n" + PIECE + b"\r\n"
        chunked = [upload(server.port, CHUNKED, chunk) for _ in range(stage.count(10, 1))]
    declared = asked + sent
    yield equal("413s seen, 1 GB declared", sum(map(is_413, declared)), len(declared))
    yield none("closed before the client had the answer", [u for u in declared if not u.is_closed])
    worst = max(u.answered_s for u in declared)
    yield at_most("to the 413, worst", 1000 * worst, stage.bound(50, "ms"), "ms")
    yield at_most("taken from a client", max(u.taken_bytes for u in declared) / KIB, 128, "KiB")
    yield at_most("memory of the front-end", more, 2, "MiB more")
    yield equal("413s seen, 1 GB in chunks", sum(map(is_413, chunked)), len(chunked))
    taken = max(u.taken_bytes for u in chunked) / MIB
    yield at_most("taken from a client in chunks", taken, LIMIT / MIB + 1, "MiB")


def is_413(seen: Upload) -> bool:
    """Whether the client got a whole 413, and nothing before it."""
    return seen.answer.startswith(b"HTTP/1.1 413 ") and is_whole(seen.answer)


def upload(port: int, head: bytes, piece: bytes) -> Upload:
    """Send *head*, then *piece* again and again until an answer is there or the time is over."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        sock.settimeout(WAIT_S)
        sock.connect(("127.0.0.1", port))
        sock.sendall(head)
        began = monotonic()
        sock.setblocking(False)
        _pump(sock, piece, began + WAIT_S)
        answered_s = monotonic() - began
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        answer, is_closed = _read(sock)
        taken = ACKED.unpack_from(info, ACKED_AT)[0]
    return Upload(answer, answered_s if answer else math.inf, taken, is_closed)


def _pump(sock: socket.socket, piece: bytes, until: float) -> None:
    rest = memoryview(piece)
    while monotonic() < until:
        readable, writable, _ = select.select([sock], [sock] if piece else [], [], 1)
        if readable:
            return
        if writable:
            try:
                rest = rest[sock.send(rest) :] or memoryview(piece)
            except OSError:
                return


def _read(sock: socket.socket) -> tuple[bytes, bool]:
    """Return all that comes, and whether the connection ended in order after it."""
    answer = b""
    sock.settimeout(WAIT_S)
    try:
        while data := sock.recv(65_536):
            answer += data
    except ConnectionResetError:  # after the whole answer it does no harm
        return answer, is_whole(answer)
    except OSError:
        return answer, False
    return answer, True
