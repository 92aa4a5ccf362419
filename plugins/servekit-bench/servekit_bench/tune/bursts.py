# SPDX-License-Identifier: Apache-2.0
"""Batches of a chosen size: as many requests at once, timed by the worker.

The answers say in ``Server-Timing`` how large their batch was, and how long its parts took.
"""

import re
import socket
from dataclasses import dataclass
from itertools import cycle
from typing import Final, Self

import msgspec

from servekit_bench.load import Target
from servekit_bench.tune.costs import BatchTime

__all__ = ["Burst", "BurstClient", "read_timing"]

PART: Final = re.compile(r"([^;,\s]+);dur=([0-9.]+)(?:;desc=([0-9]+))?")
LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
TIMING: Final = re.compile(rb"\r\nserver-timing: *([^\r]+)", re.IGNORECASE)
TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Burst:
    """The answers to requests that were sent together."""

    batches: list[BatchTime]
    failures: list[str]  #: the status of each request that failed, and what the server said


def read_timing(text: str) -> BatchTime | None:
    """Read ``Server-Timing`` of a prediction; ``None`` if it is of something else."""
    parts = {name: (float(dur) / 1e3, size) for name, dur, size in PART.findall(text)}
    if "batch" not in parts:
        return None
    decode_s, size = parts.pop("batch")
    parts.pop("queue", None)
    encode_s, ipc_s = (parts.pop(name, (0.0, ""))[0] for name in ("encode", "ipc"))
    predict_s = sum(seconds for seconds, _ in parts.values())
    return BatchTime(int(size or 1), decode_s, predict_s, encode_s, ipc_s)


def title_of(body: bytes) -> str:
    """Return the title of an error, or its first characters."""
    try:
        return str(msgspec.json.decode(body)["title"])
    except (msgspec.DecodeError, TypeError, KeyError):
        return body[:80].decode(errors="replace")


class BurstClient:
    """Keep-alive connections to one server, one for each request of a burst."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._wires = cycle([r.to_wire(target.name) for r in target.requests])
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def send(self, count: int) -> Burst:
        """Send *count* requests at once, and wait for all answers.

        :raises OSError: the server does not answer.
        """
        while len(self._sockets) < count:
            address = (self._target.host, self._target.port)
            self._sockets.append(socket.create_connection(address, TIMEOUT_S))
        used = self._sockets[:count]
        for sock in used:
            sock.sendall(next(self._wires))
        found: dict[str, BatchTime] = {}
        failures = []
        for number, sock in enumerate(used):
            status, timing, body = self._receive(sock)
            if not 200 <= status < 300:
                failures.append(f"{status} {title_of(body)}")
            elif (batch := read_timing(timing)) is not None:
                found[timing.partition("batch;")[2] or str(number)] = batch
        if failures:
            self._close()
        return Burst(list(found.values()), failures)

    def _receive(self, sock: socket.socket) -> tuple[int, str, bytes]:
        """Return status, ``Server-Timing`` and body of the next answer."""
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more(sock)
        head, body = data[: end + 2], data[end + 4 :]
        length = LENGTH.search(head)
        while length is not None and len(body) < int(length[1]):
            body += self._more(sock)
        timing = TIMING.search(head)
        return int(head.split(b" ", 2)[1]), timing[1].decode() if timing else "", body

    def _more(self, sock: socket.socket) -> bytes:
        data = sock.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def _close(self) -> None:
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()
