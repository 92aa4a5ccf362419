# SPDX-License-Identifier: Apache-2.0
"""From two looks at a server to rates: requests, errors, latencies and processor time."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from servekit.cli.server.connection import ManagedServer
from servekit.cli.server.gpus import Gpu
from servekit.ipc.table import SERVING

__all__ = ["Observation", "VersionRates", "observe", "rates"]

REQUESTS: Final = "servekit_requests_total"
LATENCIES: Final = "servekit_request_duration_seconds_bucket"
WAITING: Final = ("servekit_tasks_waiting", "servekit_stage_tasks_waiting")

Key = tuple[str, str]  #: model and version


@dataclass
class TrafficCounts:
    """The counters of one version."""

    requests: float = 0.0
    errors: float = 0.0  #: responses with a status of 500 or more
    waiting: float = 0.0
    #: requests that took at most as long as a bound, by the bound in seconds
    latencies: dict[float, float] = field(default_factory=lambda: defaultdict(float))


@dataclass(frozen=True)
class Observation:
    """A server at one moment."""

    time: float  #: ``monotonic``
    models: list[dict[str, Any]]
    counts: Mapping[Key, TrafficCounts]
    gpus: Sequence[Gpu] = ()  #: empty if the server runs on another machine

    def versions(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Yield each loaded version."""
        for model in self.models:
            for version in (model, *model["versions"]):
                yield (model["name"], version["version"]), version

    def processor_times(self) -> dict[int, float]:
        """Return the processor time of each worker, by pid."""
        replicas = [each for _, version in self.versions() for each in version["replicas"]]
        return {each["pid"]: each["cpu_s"] or 0.0 for each in replicas if each["pid"]}


class VersionRates(Struct, kw_only=True):
    """One version of a model between two looks."""

    model: str
    version: str
    serving: int  #: replicas that take tasks
    replicas: int
    requests_per_s: float
    errors_per_s: float
    p50_s: float | None  #: latencies; ``None`` without a request
    p99_s: float | None
    waiting: int
    cpu: float  #: processors that its workers keep busy
    memory_bytes: int
    gpus: list[int] = []  #: GPUs that its workers compute on, if NVML reports them


def observe(server: ManagedServer, gpus: Sequence[Gpu] = ()) -> Observation:
    """Look at *server*; *gpus* are those of its machine, read at the same time.

    :raises NoServer: it does not answer.
    :raises RequestRefused: it refuses the request.
    """
    models = server.get("/models")["models"]
    return Observation(monotonic(), models, _counts(server.text("/metrics")), gpus)


def _counts(page: str) -> dict[Key, TrafficCounts]:
    found: dict[Key, TrafficCounts] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if "model" not in sample.labels or "version" not in sample.labels:
                continue
            key = sample.labels["model"], sample.labels["version"]
            counts = found.setdefault(key, TrafficCounts())
            if sample.name == REQUESTS:
                counts.requests += sample.value
                counts.errors += sample.value * (int(sample.labels["status"]) >= 500)
            elif sample.name == LATENCIES:
                counts.latencies[float(sample.labels["le"])] += sample.value
            elif sample.name in WAITING:
                counts.waiting += sample.value
    return found


def rates(before: Observation, after: Observation) -> list[VersionRates]:
    """Return what happened to each version between two looks."""
    took_s = max(1e-9, after.time - before.time)
    then_s, now_s = before.processor_times(), after.processor_times()
    found = []
    for (model, version), state in after.versions():
        old = before.counts.get((model, version), TrafficCounts())
        new = after.counts.get((model, version), TrafficCounts())
        past = old.latencies
        latencies = {bound: count - past[bound] for bound, count in new.latencies.items()}
        replicas = state["replicas"]
        pids = [each["pid"] for each in replicas if each["pid"]]
        found.append(
            VersionRates(
                model=model,
                version=version,
                serving=sum(each["state"] == SERVING for each in replicas),
                replicas=len(replicas),
                requests_per_s=max(0.0, new.requests - old.requests) / took_s,
                errors_per_s=max(0.0, new.errors - old.errors) / took_s,
                p50_s=_quantile(latencies, 0.5),
                p99_s=_quantile(latencies, 0.99),
                waiting=int(new.waiting),
                cpu=sum(now_s[pid] - then_s.get(pid, now_s[pid]) for pid in pids) / took_s,
                memory_bytes=sum(each["memory_bytes"] or 0 for each in replicas),
                gpus=[gpu.index for gpu in after.gpus if not set(pids).isdisjoint(gpu.pids)],
            )
        )
    return found


def _quantile(latencies: Mapping[float, float], share: float) -> float | None:
    """Return the latency that *share* of the requests did not exceed, between two bounds.

    :param latencies: how many requests took at most as long as each bound, in seconds.
    """
    wanted = share * max(latencies.values(), default=0.0)
    low_s, below = 0.0, 0.0
    if not wanted:
        return None
    for bound_s, count in sorted(latencies.items()):
        if count >= wanted:
            is_last = bound_s == float("inf")
            part = (wanted - below) / (count - below)
            return low_s if is_last else low_s + (bound_s - low_s) * part
        low_s, below = bound_s, count
    return low_s
