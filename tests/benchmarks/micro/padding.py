# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.micro.padding``: a model that pads texts of different length.

It waits as long as a device would work: 2 ms, and 4 µs for each character of the padded batch, so
that other processes of the machine do not disturb the comparison. It is served with batches by
number alone, and with batches by cost. Prints for each, alternating, the requests per second, and
the median and the 99th percentile of the latency of short and long texts.
"""

import asyncio
import json
import random
import tempfile
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple
from urllib.parse import urlsplit

from servekit.testing import ServedModel

CONNECTIONS = 32
SECONDS = 5.0
ROUNDS = 3
SHORT, LONG = 64, 512  #: characters: short texts have fewer, long ones more
SERVICE = """
import time
from servekit import Service

class Padded(Service):
    def predict(self, batch):
        time.sleep(2e-3 + 4e-6 * len(batch) * max(map(len, batch)))
        return [len(text) for text in batch]
"""
CONFIGURATIONS = {
    "max_batch_size = 32": "max_batch_size = 32",
    "max_batch_size = 16": "max_batch_size = 16",
    "max_batch_size = 8": "max_batch_size = 8",
    "max_batch_size = 4": "max_batch_size = 4",
    'cost = "length", max_batch_cost = 4096': (
        'max_batch_size = 32\ncost = "length"\nmax_batch_cost = 4096'
    ),
}


class Answer(NamedTuple):
    """One request that was answered."""

    length: int  #: of its text
    latency_s: float


def texts(seed: int) -> list[str]:
    """Return texts of 8 to 1,024 characters, as many of each magnitude."""
    chosen = random.Random(seed)
    return ["x" * round(2 ** chosen.uniform(3, 10)) for _ in range(500)]


async def connection(port: int, seed: int, until: float, answers: list[Answer]) -> None:
    """Send one request after another on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for text in texts(seed) * 1000:
        body = json.dumps(text).encode()
        head = b"POST /padded/predict HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        began = monotonic()
        if began > until:
            break
        writer.write(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        fields = await reader.readuntil(b"\r\n\r\n")
        if not fields.startswith(b"HTTP/1.1 200"):
            raise AssertionError(fields)
        await reader.readexactly(int(fields.lower().partition(b"content-length: ")[2].split()[0]))
        answers.append(Answer(len(text), monotonic() - began))
    writer.close()


async def load(port: int) -> list[Answer]:
    """Return the answers of all connections."""
    answers: list[Answer] = []
    until = monotonic() + SECONDS
    await asyncio.gather(*[connection(port, seed, until, answers) for seed in range(CONNECTIONS)])
    return answers


def measure(batching: str, directory: Path) -> list[float]:
    """Serve the model with *batching*; return requests per second, and latencies in ms."""
    (directory / "model.toml").write_text(
        f'name = "padded"\nservice = "service:Padded"\n[batching]\n{batching}\n'
    )
    (directory / "service.py").write_text(SERVICE)
    with ServedModel(directory) as served:
        port = urlsplit(served.wait_ready().url).port
        answers = asyncio.run(load(port or 0))
    short = sorted(each.latency_s for each in answers if each.length < SHORT)
    long = sorted(each.latency_s for each in answers if each.length > LONG)
    shares = (0.5, 0.99)
    found = [times[int(share * len(times))] * 1e3 for times in (short, long) for share in shares]
    return [len(answers) / SECONDS, *found]


def main() -> None:
    """Measure each in turn, and print medians."""
    rounds: dict[str, list[list[float]]] = {name: [] for name in CONFIGURATIONS}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(ROUNDS):
            for name, batching in CONFIGURATIONS.items():
                rounds[name].append(measure(batching, Path(directory)))
    columns = ("requests/s", "short p50 ms", "short p99 ms", "long p50 ms", "long p99 ms")
    print(f"{'[batching]':<40}", *(f"{column:>13}" for column in columns))
    for name, found in rounds.items():
        print(f"{name:<40}", *(f"{median(column):>13.1f}" for column in zip(*found, strict=True)))


if __name__ == "__main__":
    main()
