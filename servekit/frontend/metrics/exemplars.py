# SPDX-License-Identifier: Apache-2.0
"""Exemplars: traces of single requests, which ``/metrics`` shows beside the buckets they are in."""

from bisect import bisect_left
from collections.abc import Collection, Mapping
from time import time

from prometheus_client.samples import Exemplar

from servekit.ipc.model_counters import DURATIONS

__all__ = ["Exemplars"]


class Exemplars:
    """The newest sampled request of each bucket, for each version of a model; of one front-end."""

    def __init__(self) -> None:
        """Begin without any."""
        #: for each version the place of a bucket, then duration, ``traceparent`` and ``time``
        self._found: dict[tuple[str, str], dict[int, tuple[float, str, float]]] = {}

    def note(self, model: str, version: str, duration_s: float, traceparent: str) -> None:
        """Note a request that was answered with 200 after *duration_s*, and is traced."""
        of_version = self._found.get((model, version))
        if of_version is None:
            of_version = self._found[model, version] = {}
        of_version[bisect_left(DURATIONS, duration_s)] = duration_s, traceparent, time()

    def of(self, model: str, version: str) -> Mapping[int, Exemplar]:
        """Return those of a *version*, by the place of the bucket."""
        return {
            place: Exemplar({"trace_id": traceparent[3:35]}, duration_s, time_s)
            for place, (duration_s, traceparent, time_s) in self._found.get(
                (model, version), {}
            ).items()
        }

    def keep(self, versions: Collection[tuple[str, str]]) -> None:
        """Forget all but those of *versions*, each a model and its version."""
        self._found = {key: found for key, found in self._found.items() if key in versions}
