# SPDX-License-Identifier: Apache-2.0
"""Many clients of streams at once, in one thread: what each heard, and when."""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from tests.faults.requests import post
from tests.faults.served import WAIT_S, NotAsExpected

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = post("/talk/predict", b"0.0005", Accept="text/event-stream")
ERROR = b"event: error\ndata: "


@dataclass(slots=True, eq=False)
class Listener:
    """One stream."""

    socket: socket.socket
    heard: bytes = b""  #: not whole yet
    worker: int = 0  #: the pid that speaks
    outputs: int = 0
    problem: bytes = b""  #: of the event that ended it
    over_at: float = 0.0  #: ``monotonic``: it is ended, in whatever way


class Crowd:
    """Opens streams, and reads them all as long as it is told to."""

    def __init__(self, port: int) -> None:
        """Have nobody yet."""
        self._port = port
        self._selector = selectors.DefaultSelector()
        self.listeners: list[Listener] = []

    @property
    def going(self) -> list[Listener]:
        """Those that have not ended, the oldest first."""
        return [each for each in self.listeners if not each.over_at]

    def open(self, count: int) -> None:
        """Begin *count* streams."""
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", self._port), WAIT_S)
            client.sendall(REQUEST)
            client.setblocking(False)
            listener = Listener(client)
            self.listeners.append(listener)
            self._selector.register(client, selectors.EVENT_READ, listener)

    def listen(self, until: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        """Read until *until* is true."""
        deadline = monotonic() + timeout_s
        while not until():
            if monotonic() > deadline:
                raise NotAsExpected(f"not within {timeout_s:g} s: {what}")
            for key, _ in self._selector.select(0.01):
                self._read(key.data)

    def close(self) -> None:
        """Leave all of them."""
        for listener in self.listeners:
            listener.socket.close()
        self._selector.close()

    def _read(self, listener: Listener) -> None:
        data = b""
        with suppress(ConnectionError):
            data = listener.socket.recv(65536)
        *events, listener.heard = (listener.heard + data).split(b"\n\n")
        for event in events:
            self._take(listener, event)
        if not data and not listener.over_at:
            listener.over_at = monotonic()
        if listener.over_at:
            self._selector.unregister(listener.socket)

    def _take(self, listener: Listener, event: bytes) -> None:
        if ERROR in event:
            listener.problem, listener.over_at = event.partition(ERROR)[2], monotonic()
        elif b"event: end" in event:
            listener.over_at = monotonic()
        elif b"data: " in event:
            listener.outputs += 1
            listener.worker = int(event.rpartition(b"data: ")[2])
