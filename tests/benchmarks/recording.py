# SPDX-License-Identifier: Apache-2.0
"""What a recording costs: requests per second and latency without it, allowed, and while it runs.

    python -m tests.benchmarks.recording                # six rounds of three seconds each

A server that does not allow recordings and one that does take turns; then the second one is
recorded by ``servekit record``, which itself uses a part of the machine. The ratios are those
within a round, and their median counts.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from servekit_bench.load import ClosedLoop, Target, TimedRequest, generate

from servekit.testing import ServedModel
from tests.benchmarks.console import cpu_s

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICES: Final = {
    "answers": "def predict(self, batch): return batch",
    "streams": "def stream(self, words): yield from ['word'] * 100",
}
CONNECTIONS: Final = 16
WAIT_S: Final = 10.0


class Sample(NamedTuple):
    """One measurement."""

    requests_per_s: float
    p99_s: float
    cpu_s: float  #: of the front-end, for each request


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.recording")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=3.0)
    parsed = parser.parse_args()
    for name in SERVICES:
        with tempfile.TemporaryDirectory() as scratch:
            compare(name, Path(scratch), parsed.rounds, parsed.seconds)


def compare(name: str, scratch: Path, rounds: int, seconds: float) -> None:
    """Print the ratios to the server that does not allow recordings."""
    model = write_model(scratch, name)
    for each in ("a", "b"):
        (scratch / each).mkdir()
    found: dict[str, list[Sample]] = {"without": [], "allowed": [], "recorded": []}
    with (
        ServedModel(model, run_dir=scratch / "a") as plain,
        ServedModel(model, run_dir=scratch / "b", plugin="record.allow=true") as allowed,
    ):
        for server in (plain, allowed):
            server.wait_ready()
        for _ in range(rounds):
            found["without"].append(measure(plain, name, seconds))
            found["allowed"].append(measure(allowed, name, seconds))
            with recording(scratch / "b"):
                found["recorded"].append(measure(allowed, name, seconds))
    for variant, samples in found.items():
        shown = [ratio(samples, found["without"], place) for place in range(3)]
        median = statistics.median(each.requests_per_s for each in samples)
        told = f"{median:8.0f}/s, ratio {shown[0]:.3f}, p99 {shown[1]:.2f}, CPU {shown[2]:.3f}"
        print(f"{name:8} {variant:9} {told}", flush=True)


def write_model(scratch: Path, name: str) -> Path:
    """Return the directory of a model."""
    directory = scratch / "model"
    directory.mkdir()
    (directory / "model.toml").write_text('name = "m"\nservice = "service:Served"\n')
    source = f"from servekit import Service\n\nclass Served(Service):\n    {SERVICES[name]}\n"
    (directory / "service.py").write_text(source)
    return directory


def measure(served: ServedModel, name: str, seconds: float) -> Sample:
    """Return what *served* does in a closed loop."""
    address = urlsplit(served.url)
    accept = "text/event-stream" if name == "streams" else "application/json"
    headers = (("Content-Type", "application/json"), ("Accept", accept))
    request = TimedRequest("/m/predict", b"[1, 2, 3]", headers)
    target = Target(str(address.hostname), int(address.port or 0), (request,))
    before = cpu_s(served)
    found = generate(target, ClosedLoop(CONNECTIONS), duration_s=seconds, warmup_s=0.0)
    if found.failures or set(found.statuses) != {200}:
        raise SystemExit(f"failed requests: {found.statuses}")
    rate = found.requests_per_s
    return Sample(rate, found.percentile_s(99), (cpu_s(served) - before) / (rate * seconds))


@contextmanager
def recording(run_directory: Path) -> Iterator[None]:
    """Record all calls of the server in *run_directory* until the end of the block."""
    command = [sys.executable, "-m", "servekit", "record", "-o", "-", "--max-size", "100G"]
    with subprocess.Popen(
        [*command, "--for", "600", "--run-dir", str(run_directory)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(WAIT_S)


def ratio(samples: list[Sample], plain: list[Sample], place: int) -> float:
    """Return the median ratio of one figure of *samples* to that of the *plain* server."""
    return statistics.median(
        mine[place] / its[place] for mine, its in zip(samples, plain, strict=True)
    )


if __name__ == "__main__":
    main()
