# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.micro.coroutines``: a service that waits 20 ms for a remote call.

Serves it once with ``async def predict``, and once with a plain ``predict`` that makes the calls of
a batch in threads; prints requests per second and the latency of each, alternating.
"""

import asyncio
import tempfile
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles
from time import monotonic
from urllib.parse import urlsplit

from servekit.testing import ServedModel

CONNECTIONS = 128
SECONDS = 4.0
ROUNDS = 3
BODY = b"[1,2,3]"
REQUEST = (
    b"POST /remote/predict HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
PLAIN = """
import time
from concurrent.futures import ThreadPoolExecutor
from servekit import Service

class Remote(Service):
    def load(self, context):
        self.pool = ThreadPoolExecutor(context.max_batch_size)

    def predict(self, batch):
        return list(self.pool.map(self.call, batch))

    def call(self, value):
        time.sleep(0.02)
        return sum(value)
"""
ASYNC = """
import asyncio
from servekit import Service

class Remote(Service):
    async def predict(self, value):
        await asyncio.sleep(0.02)
        return sum(value)
"""


async def connection(port: int, until: float, durations_s: list[float]) -> None:
    """Send one request after another on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (started := monotonic()) < until:
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        if await reader.readexactly(length) != b'{"prediction":6}':
            raise AssertionError(head)
        durations_s.append(monotonic() - started)
    writer.close()


async def load(port: int) -> list[float]:
    """Return the durations of the requests of all connections."""
    durations_s: list[float] = []
    until = monotonic() + SECONDS
    await asyncio.gather(*[connection(port, until, durations_s) for _ in range(CONNECTIONS)])
    return durations_s


def measure(source: str, directory: Path) -> list[float]:
    """Serve *source*, and return the durations of its requests."""
    (directory / "model.toml").write_text('name = "remote"\nservice = "service:Remote"\n')
    (directory / "service.py").write_text(source)
    with ServedModel(directory) as served:
        port = urlsplit(served.wait_ready().url).port
        return asyncio.run(load(port or 0))


def main() -> None:
    """Measure both in turns, and print the medians."""
    found: dict[str, list[list[float]]] = {"async": [], "plain": []}
    for name in islice(cycle(found), 2 * ROUNDS):
        with tempfile.TemporaryDirectory() as directory:
            found[name].append(measure({"async": ASYNC, "plain": PLAIN}[name], Path(directory)))
    for name, rounds in found.items():
        rate = median(len(each) / SECONDS for each in rounds)
        p50_ms, p99_ms = (
            median(quantiles(each, n=100)[at] for each in rounds) * 1e3 for at in (49, 98)
        )
        print(f"{name}: {rate:.0f} requests/s, p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms")


if __name__ == "__main__":
    main()
