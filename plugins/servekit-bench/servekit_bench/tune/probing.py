# SPDX-License-Identifier: Apache-2.0
"""Measures what batches cost in one replica: time, threads, memory, and what does not fit."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic
from typing import Final

from servekit.errors import StartupError
from servekit_bench.targets import TargetOptions
from servekit_bench.tune.bursts import BurstClient
from servekit_bench.tune.candidate import Candidate
from servekit_bench.tune.costs import BatchTime, CostCurve
from servekit_bench.tune.machine import usable_cores
from servekit_bench.tune.serving import ServerUsage, Serving, serving

__all__ = ["LARGEST", "Probe", "ProbeOrder", "probe"]

LARGEST: Final = 256  #: batch that is tried
DELAY_MS: Final = 40.0  #: how long a batch may wait for all requests of a burst
MIN_BURSTS: Final = 3  #: bursts of each size
MAX_BURSTS: Final = 15
TIMED_S: Final = 0.7  #: for each size, if it takes no more bursts than ``MAX_BURSTS``


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOrder:
    """The batches to time."""

    path: str
    model: str
    options: TargetOptions
    sizes: tuple[int, ...]  #: sizes of batches, growing
    threads: int = 0  #: of the worker; 0 leaves it to the server
    longest_s: float  #: no larger batch is tried once one takes longer
    deadline: float  #: ``monotonic``: nothing more is tried after it


@dataclass(slots=True)
class Probe:
    """The costs of batches with a number of threads."""

    threads: int
    curve: CostCurve
    cpu: float  #: cores that the worker keeps busy while it predicts
    idle_bytes: int  #: private memory of a worker after its first batch
    memory: dict[int, int] = field(default_factory=dict)  #: largest batch so far to peak, in bytes
    failing: int = 0  #: the smallest batch that fails; 0 if none does
    reason: str = ""  #: why it does
    largest_burst: int = 0  #: requests that were sent together, at most

    @property
    def threads_label(self) -> str:
        """The threads, for people."""
        if not self.threads:
            return "threads as the server chooses"
        return f"{self.threads} thread{'s' * (self.threads > 1)}"

    @property
    def largest(self) -> int:
        """The largest batch that was answered."""
        return self.curve.points[-1][0]

    def bytes_of(self, size: int) -> int:
        """Return the memory of a worker whose largest batch has *size*."""
        known = [peak for largest, peak in self.memory.items() if largest <= size]
        return max(known, default=self.idle_bytes)


def probe(order: ProbeOrder, tell: Callable[[str], None]) -> Probe:
    """Serve the model with one replica, and time batches of each size.

    :raises StartupError: it cannot be served, or answers not even single requests.
    """
    most = order.sizes[-1]
    candidate = Candidate(max_batch_size=most, max_delay_ms=DELAY_MS, threads=order.threads)
    alone = replace(order.options, timeout_s=60.0)
    with (
        serving(order.path, order.model, candidate, alone) as served,
        BurstClient(served.target) as client,
    ):
        return _Probing(order, served, client, tell).run()


class _Probing:
    """One run of ``probe``."""

    def __init__(
        self,
        order: ProbeOrder,
        served: Serving,
        client: BurstClient,
        tell: Callable[[str], None],
    ) -> None:
        self._order, self._served, self._client, self._tell = order, served, client, tell
        self._batches: list[BatchTime] = []
        self._memory: dict[int, int] = {}
        self._failing, self._reason = 0, ""
        self._largest_burst = 0

    def run(self) -> Probe:
        """Time all sizes."""
        self._bursts(1)  # the first ones are slower: imports, caches, compilation
        self._batches.clear()
        before, began, slow = self._served.usage(), len(self._batches), 0
        for size in self._order.sizes:
            if not self._time(size):
                break
            slow = slow + 1 if self._took_s(size) > self._order.longest_s else 0
            if slow > 1:  # one alone may have been disturbed
                break
        if self._failing:
            self._narrow()
        if not self._batches:
            raise StartupError(f"{self._order.model}: single requests fail: {self._reason}")
        return self._found(before, self._batches[began:])

    def _found(self, before: ServerUsage, batches: list[BatchTime]) -> Probe:
        after = self._served.usage()
        busy_s = sum(each.total_s for each in batches)
        cpu = (after.worker_cpu_s - before.worker_cpu_s) / busy_s if busy_s else 0.0
        return Probe(
            threads=self._order.threads,
            curve=CostCurve(batches),
            cpu=min(cpu, usable_cores()),  # threads that wait for work spin for a while
            idle_bytes=before.worker_bytes,
            memory=self._memory,
            failing=self._failing,
            reason=self._reason,
            largest_burst=self._largest_burst,
        )

    def _time(self, size: int) -> bool:
        """Time batches of *size*; return whether they work, and larger ones can be tried."""
        if monotonic() > self._order.deadline and self._batches:
            return False
        threads = f", threads: {self._order.threads}" if self._order.threads else ""
        self._tell(f"batches of {size}{threads}")
        if not self._bursts(size):
            return False
        self._memory[size] = self._served.usage().worker_bytes
        return True

    def _took_s(self, size: int) -> float:
        times = [each.total_s for each in self._batches if each.size == size]
        return median(times) if times else 0.0

    def _bursts(self, size: int) -> bool:
        """Send bursts of *size* until their time is up; return whether all were answered."""
        self._largest_burst = max(self._largest_burst, size)
        until, count = monotonic() + TIMED_S, 0
        while count < MIN_BURSTS or (count < MAX_BURSTS and monotonic() < until):
            try:
                burst = self._client.send(size)
            except OSError as error:
                return self._fails(size, str(error) or type(error).__name__)
            if burst.failures:
                return self._fails(size, burst.failures[0])
            self._batches += burst.batches
            count += 1
        return True

    def _fails(self, size: int, reason: str) -> bool:
        if not self._failing or size < self._failing:
            self._failing, self._reason = size, reason
        self._batches = [each for each in self._batches if each.size < size]
        return False

    def _narrow(self) -> None:
        """Look for the largest batch that does not fail, between the last two sizes."""
        low = max((each.size for each in self._batches), default=0)
        while low and self._failing - low > max(1, low // 8):
            if monotonic() > self._order.deadline:
                return
            middle = (low + self._failing) // 2
            self._tell(f"batches of {middle}, since those of {self._failing} fail")
            if self._bursts(middle):
                self._memory[middle] = self._served.usage().worker_bytes
                low = middle
