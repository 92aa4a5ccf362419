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
        """Know none."""
        self._found: dict[tuple[str, str], dict[int, Exemplar]] = {}

    def note(self, model: str, version: str, duration_s: float, trace_id: str) -> None:
        """Note a request that was answered with 200 after *duration_s*, and is traced."""
        of_version = self._found.setdefault((model, version), {})
        exemplar = Exemplar({"trace_id": trace_id}, duration_s, time())
        of_version[bisect_left(DURATIONS, duration_s)] = exemplar

    def of(self, model: str, version: str) -> Mapping[int, Exemplar]:
        """Return those of a *version*, by the place of the bucket."""
        return self._found.get((model, version), {})

    def keep(self, versions: Collection[tuple[str, str]]) -> None:
        """Forget all but those of *versions*, each a model and its version."""
        self._found = {key: found for key, found in self._found.items() if key in versions}
