# SPDX-License-Identifier: Apache-2.0
"""Load generators: each puts a closed loop on a server and says what it saw."""

import json
import re
import resource
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servekit_bench.load import ClosedLoop, Target, TimedRequest, generate

from tests.benchmarks import environments, wrk
from tests.benchmarks.answers import HOST, Request
from tests.benchmarks.cases import SMALL
from tests.benchmarks.environments import clean_environment, debian_library, debian_program
from tests.benchmarks.errors import BenchmarkError

CLIENT: Final = ("tritonclient==2.48.0", "nvidia-cuda-runtime-cu12")  #: the former has the program
TRIALS: Final = 3  #: windows of perf_analyzer; it wants at least so many
THROUGHPUT: Final = re.compile(r"Throughput: ([\d.]+) infer/sec")
LATENCY: Final = re.compile(r"p(50|99) latency: (\d+) usec")
WARM_UP_S: Final = 1.0
SLACK_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What a generator saw."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float  #: user and system time of the generator per request


def parse_perf_analyzer(text: str) -> tuple[float, float, float]:
    """Return requests/s, and p50 and p99 in ms, of what perf_analyzer printed."""
    rate, latencies = THROUGHPUT.search(text), dict(LATENCY.findall(text))
    if rate is None or latencies.keys() != {"50", "99"}:
        raise BenchmarkError(f"perf_analyzer: {text[-800:]}")
    return float(rate[1]), int(latencies["50"]) / 1e3, int(latencies["99"]) / 1e3


def _children_s() -> float:
    """Return the CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Generator(ABC):
    """One load generator."""

    key: str

    def install(self) -> None:  # noqa: B027 - only programs of others need it
        """Get the program."""

    def can_send(self, request: Request) -> bool:
        """Return whether it can send *request*."""
        return True

    @abstractmethod
    def measure(
        self, port: int, request: Request, connections: int, seconds: int, directory: Path
    ) -> Sight:
        """Load the server at *port*; *directory* is for files."""


class ServekitBench(Generator):
    """The generator that is tested."""

    key = "bench"

    def measure(
        self, port: int, request: Request, connections: int, seconds: int, directory: Path
    ) -> Sight:
        headers = (("Content-Type", request.content_type), *request.headers)
        target = Target(HOST, port, (TimedRequest(request.path, request.body, headers),))
        seen = generate(
            target, ClosedLoop(connections), duration_s=seconds, warmup_s=WARM_UP_S, processes=1
        )
        if seen.failures:
            raise BenchmarkError(f"bench: {seen.failures}")
        p50_ms, p99_ms = 1e3 * seen.percentile_s(50), 1e3 * seen.percentile_s(99)
        cpu_us = 1e6 * seen.generator.cpu / seen.requests_per_s
        return Sight(seen.requests_per_s, p50_ms, p99_ms, cpu_us)


class Wrk(Generator):
    """wrk with one thread."""

    key = "wrk"

    def install(self) -> None:
        debian_program("wrk")

    def measure(
        self, port: int, request: Request, connections: int, seconds: int, directory: Path
    ) -> Sight:
        body = directory / "wrk.body"
        body.write_bytes(request.body)
        headers = (("Content-Type", request.content_type), *request.headers)
        target = wrk.Target(url=f"http://{HOST}:{port}{request.path}", body=body, headers=headers)
        wrk.run(target, connections=connections, seconds=round(WARM_UP_S))
        before = _children_s()
        seen = wrk.run(target, connections=connections, seconds=seconds)
        if seen.errors:
            raise BenchmarkError(f"wrk: {seen.errors} errors")
        cpu_us = 1e6 * (_children_s() - before) / seen.requests
        return Sight(seen.requests_per_s, seen.p50_ms, seen.p99_ms, cpu_us)


class PerfAnalyzer(Generator):
    """Triton's perf_analyzer: a thread with libcurl for each connection, binary tensors."""

    key = "perf_analyzer"

    def install(self) -> None:
        debian_library("libb64.so.0d", "libb64-0d")
        bin_directory = environments.virtual_environment("perf-analyzer", *CLIENT)
        self._program = bin_directory / "perf_analyzer"
        packages = bin_directory.parent.glob("lib/python*/site-packages/nvidia/cuda_runtime/lib")
        self._libraries = str(next(packages))

    def can_send(self, request: Request) -> bool:
        return request.path.startswith("/v2/")

    def measure(
        self, port: int, request: Request, connections: int, seconds: int, directory: Path
    ) -> Sight:
        data = directory / "perf_analyzer.json"
        data.write_text(json.dumps({"data": [{"x": {"content": SMALL, "shape": [4]}}]}))
        argv = [str(self._program), "-m", "sum", "-u", f"{HOST}:{port}", "-i", "http"]
        argv += ["--concurrency-range", str(connections), "--input-data", str(data)]
        argv += ["--shape", "x:4", "-s", "999", "--max-trials", str(TRIALS)]
        argv += ["-p", str(1000 * seconds // TRIALS)]
        environment = clean_environment(LD_LIBRARY_PATH=self._libraries)
        before = _children_s()
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=4 * seconds + SLACK_S
        )
        rate, p50_ms, p99_ms = parse_perf_analyzer(done.stdout + done.stderr)
        cpu_us = 1e6 * (_children_s() - before) / (rate * seconds)
        return Sight(rate, p50_ms, p99_ms, cpu_us)


GENERATORS: Final = (ServekitBench(), Wrk(), PerfAnalyzer())
