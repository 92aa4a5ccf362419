# SPDX-License-Identifier: Apache-2.0
"""Sends requests at fixed moments over keep-alive connections, and keeps every answer.

As in ``open_client``, a request that finds no connection free waits, and its latency runs from the
moment it was due. Here each request has its own id, and its answer says which version made it.
"""

import asyncio
import contextlib
import json
import threading
from collections import deque
from time import time
from typing import Final, NamedTuple, Self

from tests.benchmarks.answers import HOST

RATE: Final = 100.0  #: requests/s
CONNECTIONS: Final = 64
PATH: Final = "/digits/predict"
TIMEOUT_S: Final = 20.0  #: from due to answered; after that nobody waits
LOST, LATE = 0, -1  #: in place of a status: the connection ended, or no answer came in time

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SwapAnswer(NamedTuple):
    """What came of one request. Moments are ``time.time``, to compare with a server's steps."""

    due: float
    at: float  #: when the answer was whole, or there was none
    status: int
    version: str = ""  #: that made it, "" if none did
    is_mixed: bool = False  #: its parts are not from the same version, or not for this request


class Users(threading.Thread):
    """Everybody who asks, in one thread, as long as a ``with`` lasts."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._ends = threading.Event()
        self._free: deque[Streams | None] = deque([None] * CONNECTIONS)  #: None: not connected
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self.answers: list[SwapAnswer] = []  #: in the order in which they came

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self.join(TIMEOUT_S + 10)

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        begin, number = time(), 0
        async with asyncio.TaskGroup() as requests:
            while not self._ends.is_set():
                due = begin + number / RATE
                await asyncio.sleep(due - time())
                requests.create_task(self._ask(number, due))
                number += 1
        for streams in self._free:
            if streams:
                streams[1].close()

    async def _ask(self, number: int, due: float) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S + due - time()):
                answer = await self._exchange(number, due)
        except TimeoutError:
            answer = SwapAnswer(due, time(), LATE)
        except (OSError, EOFError):
            answer = SwapAnswer(due, time(), LOST)
        self.answers.append(answer)

    async def _exchange(self, number: int, due: float) -> SwapAnswer:
        async with self._slots:
            streams = self._free.popleft()
            kept: Streams | None = None
            try:
                if streams is None:
                    streams = await asyncio.open_connection(HOST, self._port)
                status, head, body = await exchange(streams, number)
                if "\r\nconnection: close\r\n" not in head:
                    kept = streams
            finally:
                if streams and not kept:
                    with contextlib.suppress(OSError):
                        streams[1].close()
                self._free.append(kept)
        return judged(due, number, status, head, body)


async def exchange(streams: Streams, number: int) -> tuple[int, str, bytes]:
    """Send one request, and return the status, the head in small letters, and the body."""
    reader, writer = streams
    content = json.dumps(number).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    await writer.drain()
    said = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(said.partition("\r\ncontent-length:")[2].partition("\r\n")[0])
    return int(said.split(" ", 2)[1]), said, await reader.readexactly(length)


def judged(due: float, number: int, status: int, head: str, body: bytes) -> SwapAnswer:
    """Return whether an answer is of one version; servekit names it in a header, too."""
    if status != 200:
        return SwapAnswer(due, time(), status, version_in(head))
    said = json.loads(body)["prediction"]
    versions = {said["loaded"], said["packed"], version_in(head) or said["loaded"]}
    is_mixed = len(versions) > 1 or said["id"] != number
    return SwapAnswer(due, time(), status, said["loaded"], is_mixed)


def version_in(head: str) -> str:
    """Return ``X-Model-Version``, "" if the server gives none."""
    return head.partition("\r\nx-model-version:")[2].partition("\r\n")[0].strip()
