# SPDX-License-Identifier: Apache-2.0
"""CPU seconds per 1,000 requests, by role, under a short load of wrk."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from tests.benchmarks import wrk
from tests.benchmarks.errors import WrkFailed
from tests.scale.subject import Subject

SCRIPT: Final = Path(__file__).with_name("load.lua")
CLIENTS: Final = 8
SLACK_S: Final = 60.0


class Cost(NamedTuple):
    """Medians over the rounds."""

    requests_per_s: float
    front_end_ms: float  #: CPU ms of the front-ends per 1,000 requests
    workers_ms: float
    all_ms: float  #: of every process of the server


def cost_of(subject: Subject, paths: Sequence[str], *, rounds: int, seconds: int) -> Cost:
    """Load *paths* in turn, *rounds* times for *seconds* after a second of warm-up.

    :raises WrkFailed: a request was not answered with 200.
    """
    _load(subject, paths, 1)
    found = [_round(subject, paths, seconds) for _ in range(rounds)]
    return Cost(*map(median, zip(*found, strict=True)))


def _round(subject: Subject, paths: Sequence[str], seconds: int) -> Cost:
    before = subject.cpu_s()
    load = _load(subject, paths, seconds)
    after = subject.cpu_s()

    def per_1000(role: str) -> float:
        return (after[role] - before[role]) * 1e6 / load.requests

    return Cost(load.requests_per_s, per_1000("front-end"), per_1000("workers"), per_1000("all"))


def _load(subject: Subject, paths: Sequence[str], seconds: int) -> wrk.Load:
    argv = ["wrk", "-t1", f"-c{CLIENTS}", f"-d{seconds}s", "--latency", f"-s{SCRIPT}"]
    argv += [f"http://127.0.0.1:{subject.port}", "--", *paths]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=seconds + SLACK_S, check=False
    )
    load = wrk.parse(done.stdout)
    if load.errors or not load.requests:
        raise WrkFailed(f"{load.errors} of {load.requests} requests failed")
    return load
