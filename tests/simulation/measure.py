# SPDX-License-Identifier: Apache-2.0
"""Measures what one node costs: ``python -m tests.simulation --measure`` writes ``costs.json``.

The model is an encoder of the size of MiniLM (6 layers, 384 wide) with random weights, for
16 tokens, in PyTorch on one core. Needs PyTorch.
"""

import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Final

from servekit_client import Client

from servekit import LocalServer, serve
from tests.simulation.fleet import COSTS, Costs

__all__ = ["measure"]

SIZES: Final = (1, 2, 4, 8, 16)
ROUNDS: Final = 15
SERVICE: Final = """\
import torch

from servekit import Service

TOKENS = 16


class Encode(Service):
    def load(self, context):
        torch.set_num_threads(1)
        layer = torch.nn.TransformerEncoderLayer(384, 12, 1536, batch_first=True)
        self.words = torch.nn.Embedding(30000, 384)
        self.model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()

    def predict(self, batch):
        with torch.inference_mode():
            tokens = torch.tensor([(each * TOKENS)[:TOKENS] for each in batch])
            return self.model(self.words(tokens)).mean(1)[:, 0].tolist()
"""
TIMED: Final = """\
import json, statistics, sys, time
from service import Encode

model = Encode()
model.load(None)
found = {}
for _ in range(%(rounds)d):
    for size in %(sizes)s:
        batch = [[number] for number in range(size)]
        began = time.perf_counter()
        model.predict(batch)
        found.setdefault(size, []).append(time.perf_counter() - began)
print(json.dumps({size: min(each[1:]) for size, each in found.items()}))
"""
MODEL: Final = 'name = "encode"\nversion = "1.0"\nservice = "service:Encode"\n'
ECHO: Final = """\
from servekit import Service


class Echo(Service):
    def predict(self, batch):
        return batch
"""


def measure() -> Costs:
    """Measure on this machine, write ``costs.json``, and return what it says."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "service.py").write_text(SERVICE)
        (directory / "model.toml").write_text(MODEL)
        batch_s, input_s = line(batch_times(directory))
        costs = Costs(
            batch_s=batch_s,
            input_s=input_s,
            network_s=request_s(directory / "echo.py"),
            refused_s=refused_s(),
            start_s=statistics.median(start_s(directory) for _ in range(3)),
            machine=machine(),
        )
    COSTS.write_text(json.dumps(costs.as_json(), indent=2) + "\n")
    return costs


def batch_times(directory: Path) -> dict[int, float]:
    """Return the shortest time of ``predict`` by the size of the batch, in seconds."""
    code = TIMED % {"rounds": ROUNDS, "sizes": SIZES}
    whole = [sys.executable, "-c", code]
    done = subprocess.run(whole, cwd=directory, capture_output=True, text=True, check=True)
    return {int(size): seconds for size, seconds in json.loads(done.stdout).items()}


def line(times: dict[int, float]) -> tuple[float, float]:
    """Return offset and slope of the line through *times* (least squares)."""
    slope, offset = statistics.linear_regression([*times], [*times.values()])
    return max(offset, 0.0), slope


def request_s(service: Path) -> float:
    """Return the time of a request to a model that does nothing, over loopback."""
    service.write_text(ECHO)
    server = serve({"echo": f"{service}:Echo"}, block=False, port=0)
    with server, Client(server.url) as client:
        return fastest(lambda: client.predict("echo", [1.0]), 300)


def refused_s() -> float:
    """Return how long it takes until a closed port refuses a connection."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()

    def connect() -> None:
        with suppress(ConnectionRefusedError):
            socket.create_connection(address)

    return fastest(connect, 100)


def start_s(directory: Path) -> float:
    """Return the time from the start of a server to its first response."""
    began = perf_counter()
    server: LocalServer = serve({"encode": str(directory)}, block=False, port=0)
    with server, Client(server.url) as client:
        client.predict("encode", [1])
        return perf_counter() - began


def fastest(act: Callable[[], object], times: int) -> float:
    """Return the tenth part of *times* that was fastest, its longest: others share the machine."""
    found = []
    for _ in range(times):
        began = perf_counter()
        act()
        found.append(perf_counter() - began)
    return statistics.quantiles(found, n=10)[0]


def machine() -> str:
    """Return what was measured on."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    names = [each.partition(":")[2].strip() for each in info if each.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"
