# SPDX-License-Identifier: Apache-2.0
"""The load generator: run wrk once, read what it printed."""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks.errors import WrkFailed

SCRIPT: Final = Path(__file__).with_name("request.lua")
TIMEOUT_S: Final = 20  #: of one request; wrk's own 2 s are short for 10 MB bodies
SLACK_S: Final = 30.0  #: how much longer than asked wrk may take before it counts as hung
MS_PER_UNIT: Final = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}

REQUESTS: Final = re.compile(r"^\s*(\d+) requests in ", re.MULTILINE)
RATE: Final = re.compile(r"^Requests/sec:\s+([\d.]+)", re.MULTILINE)
PERCENTILE: Final = re.compile(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s|m|h)\s*$", re.MULTILINE)
STATUS_ERRORS: Final = re.compile(r"^\s*Non-2xx or 3xx responses: (\d+)", re.MULTILINE)
SOCKET_ERRORS: Final = re.compile(
    r"^\s*Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one run of wrk saw."""

    requests: int  #: answers, of any status
    requests_per_s: float  #: good answers per second
    p50_ms: float
    p99_ms: float
    status_errors: int  #: answers that were not 2xx
    socket_errors: int  #: connect, read, write and time-out together

    @property
    def errors(self) -> int:
        return self.status_errors + self.socket_errors


def parse(text: str) -> Load:
    """Read what wrk printed with ``--latency``."""
    requests = int(_find(REQUESTS, text))
    status_errors = _sum_of(STATUS_ERRORS, text)
    percentiles = {
        name: float(value) * MS_PER_UNIT[unit] for name, value, unit in PERCENTILE.findall(text)
    }
    if percentiles.keys() != {"50", "99"}:
        raise WrkFailed(f"no latency distribution in wrk's output:\n{text}")
    good = (requests - status_errors) / requests if requests else 0.0
    return Load(
        requests=requests,
        requests_per_s=float(_find(RATE, text)) * good,
        p50_ms=percentiles["50"],
        p99_ms=percentiles["99"],
        status_errors=status_errors,
        socket_errors=_sum_of(SOCKET_ERRORS, text),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the load goes."""

    url: str
    body: Path  #: a file that holds it; wrk reads it once
    headers: tuple[tuple[str, str], ...]


@contextlib.contextmanager
def running(target: Target, *, connections: int, seconds: int) -> Iterator[subprocess.Popen[str]]:
    """Run wrk while the block lasts; with one thread, to leave the machine to the server."""
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={TIMEOUT_S}s"]
    argv += ["--latency", f"-s{SCRIPT}", target.url, "--", str(target.body)]
    argv += [text for header in target.headers for text in header]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()  # does nothing when wrk has ended


def run(target: Target, *, connections: int, seconds: int) -> Load:
    """Load *target* for *seconds*, which it blocks for, and return what wrk saw."""
    with running(target, connections=connections, seconds=seconds) as process:
        try:
            text, _ = process.communicate(timeout=seconds + SLACK_S)
        except subprocess.TimeoutExpired as error:
            raise WrkFailed(f"did not end {SLACK_S:.0f} s after its {seconds} s") from error
    if process.returncode != 0:
        raise WrkFailed(f"wrk {target.url} exited with {process.returncode}: {text.strip()}")
    return parse(text)


def _find(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    if match is None:
        raise WrkFailed(f"wrk's output has no {pattern.pattern!r}:\n{text}")
    return match[1]


def _sum_of(pattern: re.Pattern[str], text: str) -> int:
    """Add up the counts of a line that wrk prints only when one of them is not zero."""
    match = pattern.search(text)
    return sum(int(count) for count in match.groups()) if match else 0
