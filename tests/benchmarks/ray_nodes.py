# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.ray_nodes``: two nodes that Ray has placed, one node, and Ray Serve.

The same client asks in turns; the balancer of ``servekit_client`` chooses the server, and as little
as possible is between it and the socket.

    one node    ``servekit start`` with one worker
    two nodes   the same, each with one worker, on two nodes of a Ray cluster on this machine
    Ray Serve   the same class behind ``@serve.batch``, two replicas in the same cluster

for two models: ``wait`` takes as long as a small network on a device for each batch, ``sum`` adds
four numbers. Prints requests per second: each run, and the medians. Needs ``ray[serve]``.
"""

import argparse
import asyncio
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from servekit_client.servers import Servers

from servekit import serve
from tests.benchmarks.machine import read_machine
from tests.benchmarks.processes import free_port

BATCH: Final = 4
WAIT_S: Final = 0.02
BODY: Final = b"[1.5, 2.5, 3.5, 4.5]"
SUM: Final = 12.0
MODELS: Final = ("wait", "sum")
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SERVICE: Final = f"""
import time


class Model:
    def __init__(self, wait_s):
        self.wait_s = wait_s

    def predict(self, batch):
        if self.wait_s:
            time.sleep(self.wait_s)
        return [sum(each) for each in batch]


try:
    from servekit import Service
except ImportError:  # in Ray Serve
    Service = object


class Wait(Service):
    def load(self, context):
        self.model = Model({WAIT_S})

    def predict(self, batch):
        return self.model.predict(batch)


class Sum(Wait):
    def load(self, context):
        self.model = Model(0)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ray_nodes")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=4, help="of one run, default: %(default)s")
    parser.add_argument(
        "--clients", type=int, default=32, help="calls at once, default: %(default)s"
    )
    options = parser.parse_args(argv)
    print(read_machine().line())
    rates: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="rn") as directory:
        archives = {model: build(Path(directory), model) for model in MODELS}
        with subjects(archives) as urls:
            for turn in range(options.rounds):
                for model in MODELS:
                    for name, servers in in_turn(urls, turn):
                        rate = asyncio.run(requests_per_s(servers, model, options))
                        rates.setdefault((model, name), []).append(rate)
                        print(f"{turn} {model:5} {name:10} {rate:7.0f}", flush=True)
    for model in MODELS:
        found = {name: median(rates[model, name]) for name in urls}
        shown = ", ".join(f"{name} {rate:.0f}" for name, rate in found.items())
        print(f"{model}: {shown} requests/s (medians)")
    return 0


def in_turn(urls: dict[str, list[str]], turn: int) -> list[tuple[str, list[str]]]:
    """Return the subjects, each first in one round of three."""
    found = list(urls.items())
    first = turn % len(found)
    return found[first:] + found[:first]


async def requests_per_s(urls: list[str], model: str, options: argparse.Namespace) -> float:
    """Return the rate of right answers from *urls*."""
    counted, servers, connections = 0, Servers(urls), Connections()
    starts = time.monotonic() + 1  # after a second of warm-up
    ends = starts + options.seconds

    async def ask() -> None:
        nonlocal counted
        while (now := time.monotonic()) < ends:
            with servers.lease() as lease:
                answer = await connections.post(lease.url, f"/{model}/predict")
            assert json.loads(answer)["prediction"] == SUM, answer
            counted += starts <= now

    try:
        await asyncio.gather(*(ask() for _ in range(options.clients)))
    finally:
        connections.close()
    return float(counted / options.seconds)


class Connections:
    """Connections that are kept open, by URL."""

    def __init__(self) -> None:
        self._idle: dict[str, list[Streams]] = {}

    async def post(self, url: str, path: str) -> bytes:
        """Return the body of the response, which must be a 200."""
        idle = self._idle.setdefault(url, [])
        at = urlsplit(url)
        reader, writer = idle.pop() if idle else await asyncio.open_connection(at.hostname, at.port)
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(BODY)}\r\n\r\n".encode()
            + BODY
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200 "), head
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        idle.append((reader, writer))
        return body

    def close(self) -> None:
        """Close them."""
        for streams in self._idle.values():
            for _, writer in streams:
                writer.close()


def build(directory: Path, model: str) -> str:
    """Return the path of the archive of *model*."""
    source, archive = directory / model, directory / f"{model}.mar"
    source.mkdir()
    (source / "service.py").write_text(SERVICE)
    (source / "model.toml").write_text(
        f'name = "{model}"\nversion = "1"\nservice = "service:{model.capitalize()}"\n'
        f"[batching]\nmax_batch_size = {BATCH}\n"
    )
    command = [sys.executable, "-m", "servekit", "build", str(source), "-o", str(archive)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return str(archive)


@contextmanager
def subjects(archives: dict[str, str]) -> Iterator[dict[str, list[str]]]:
    """Start all that is measured; yield the URLs by name."""
    from servekit_ray import deploy

    with cluster():
        port = free_port()
        start_ray_serve(port)
        with serve(archives, block=False, port=0, replicas=1) as one:
            deployment = deploy(list(archives.values()), nodes=2, replicas=1, cpus=1)
            try:
                yield {
                    "one node": [one.url],
                    "two nodes": deployment.urls(),
                    "Ray Serve": [f"http://127.0.0.1:{port}"],
                }
            finally:
                deployment.down()


@contextmanager
def cluster() -> Iterator[None]:
    """Connect to a new Ray cluster of two nodes on this machine."""
    import ray
    from ray.cluster_utils import Cluster

    directory = tempfile.mkdtemp(prefix="r", dir="/dev/shm")
    node = {"num_cpus": 4, "object_store_memory": 100 * 2**20}
    head = {**node, "include_dashboard": False, "temp_dir": directory}
    found = Cluster(initialize_head=True, head_node_args=head)
    try:
        found.add_node(**node)
        ray.init(address=found.address, log_to_driver=False, logging_level=logging.ERROR)
        yield
    finally:
        ray.shutdown()
        found.shutdown()
        shutil.rmtree(directory, ignore_errors=True)


def start_ray_serve(port: int) -> None:
    """Serve both models by Ray Serve, two replicas of each, with its own batches."""
    from ray import serve as ray_serve
    from starlette.requests import Request
    from starlette.responses import JSONResponse

    classes: dict[str, Any] = {}
    exec(SERVICE, classes)
    model_class = classes["Model"]

    @ray_serve.deployment(
        num_replicas=2, max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.5}
    )
    class Batched:
        def __init__(self, wait_s: float) -> None:
            self.model = model_class(wait_s)

        # a thread, so that requests arrive while the model computes
        @ray_serve.batch(max_batch_size=BATCH)
        async def predict(self, batch: list[list[float]]) -> list[float]:
            return await asyncio.to_thread(self.model.predict, batch)

        async def __call__(self, request: Request) -> JSONResponse:
            output = await self.predict(json.loads(await request.body()))
            return JSONResponse({"prediction": output})

    ray_serve.start(http_options={"port": port})
    for model, wait_s in (("wait", WAIT_S), ("sum", 0.0)):
        ray_serve.run(Batched.bind(wait_s), name=model, route_prefix=f"/{model}")


if __name__ == "__main__":
    sys.exit(main())
