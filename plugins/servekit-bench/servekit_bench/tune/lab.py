# SPDX-License-Identifier: Apache-2.0
"""Real servers for a search: a separate ``servekit start`` for each candidate."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from servekit_bench.targets import TargetOptions
from servekit_bench.tune.candidate import Candidate
from servekit_bench.tune.probing import Probe, ProbeOrder, probe
from servekit_bench.tune.serving import Serving, serving
from servekit_bench.tune.trials import WARM_UP_S, Trial, try_rate

__all__ = ["ServerLab"]


class ServerUnderLoad:
    """A server, and the requests that it has answered."""

    def __init__(self, served: Serving) -> None:
        self._served = served
        self._cpu_s = served.usage().server_cpu_s  #: spent on its start
        self._answered = 0.0

    def run(self, rate: float, duration_s: float) -> Trial:
        """Put a load on it; see ``try_rate``."""
        trial = try_rate(self._served.target, rate, duration_s)
        self._answered += trial.requests_per_s * (WARM_UP_S + duration_s)
        return trial

    def front_end_s(self) -> float:
        """CPU time of the front-ends for each request until now; 0 before the first."""
        spent_s = self._served.usage().server_cpu_s - self._cpu_s
        return spent_s / self._answered if self._answered else 0.0


class ServerLab:
    """Serves the model of one archive."""

    def __init__(
        self, path: str, model: str, options: TargetOptions, tell: Callable[[str], None]
    ) -> None:
        """*options* say how the servers are asked; their settings are those of all candidates."""
        self._path, self._model, self._options, self._tell = path, model, options, tell

    def probe(
        self, threads: int, sizes: tuple[int, ...], longest_s: float, deadline: float
    ) -> Probe:
        """Measure what batches cost with a number of threads."""
        order = ProbeOrder(
            path=self._path,
            model=self._model,
            options=self._options,
            sizes=sizes,
            threads=threads,
            longest_s=longest_s,
            deadline=deadline,
        )
        return probe(order, self._tell)

    @contextmanager
    def serving(self, candidate: Candidate) -> Iterator[ServerUnderLoad]:
        """Serve with the settings of *candidate*."""
        with serving(self._path, self._model, candidate, self._options) as served:
            yield ServerUnderLoad(served)
