# SPDX-License-Identifier: Apache-2.0
"""How much memory the models take, and how much they may take together."""

from collections.abc import Iterator
from time import monotonic
from typing import Protocol

from servekit.settings import Settings
from servekit.supervisor.models.host import Measured
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.replicas.load_queue import BASE_BYTES
from servekit.system.cgroups import memory_groups
from servekit.system.processes import proportional_bytes

__all__ = ["ModelMemory"]

SHARE = 0.8  #: models get this part of a control group's limit; other processes need the rest
TURN_S = 0.005  #: no new measurement begins in a turn after this time: it blocks the supervisor


class Models(Protocol):
    """The registry."""

    settings: Settings

    def __iter__(self) -> Iterator[Model]:
        """Yield the models."""


class ModelMemory:
    """Measures versions one after another, and compares their sum with a budget.

    The memory of a version is the proportional set size (PSS) of its workers and of their
    preloaded parents: what several processes share is divided among them. Until it has been
    measured, it is estimated from the size of its files. The last measurement is kept while a
    version sleeps.
    """

    def __init__(self, models: Models) -> None:
        """Measure nothing yet."""
        self._models = models
        self._group_bytes = int(min((g.limit for g in memory_groups()), default=0) * SHARE)
        self._measured: dict[tuple[str, str], int] = {}
        self._measured_at: dict[ModelVersion, float] = {}

    @property
    def limit(self) -> int:
        """The bytes that all versions may take together; 0: there is no limit."""
        return self._models.settings.models_memory or self._group_bytes

    def of(self, version: Measured) -> int:
        """Return the bytes that *version* takes, or would take."""
        estimate = version.size * BASE_BYTES + version.prepared.size_bytes
        return self._measured.get((version.prepared.name, version.version), estimate)

    @property
    def _loaded(self) -> list[ModelVersion]:
        """The versions that take memory, those whose workers leave too."""
        every = (version for model in self._models for version in model.versions)
        return [version for version in every if version.replicas or version.pids]

    @property
    def taken(self) -> int:
        """The bytes that all versions take."""
        return sum(map(self.of, self._loaded))

    def lacks(self, version: Measured) -> bool:
        """Whether there is no room for *version* beside those that are loaded."""
        return bool(self.limit) and self.taken + self.of(version) > self.limit

    def problem(self, needed: int) -> str:
        """Return why *needed* bytes have no room even if all that may sleep do, or ""."""
        kept = [each for each in self._loaded if not each.prepared.may_sleep and each.pids]
        held = sum(map(self.of, kept))
        if not self.limit or needed + held <= self.limit:
            return ""
        others = f"; models that stay loaded take {held >> 20} MiB" if held else ""
        return f"needs about {needed >> 20} MiB of {self.limit >> 20} MiB for models{others}"

    def measure(self) -> None:
        """Measure those versions whose measurements are oldest, as far as there is time."""
        began, loaded = monotonic(), self._loaded
        self._measured_at = {each: self._measured_at.get(each, 0.0) for each in loaded}
        for version in sorted(loaded, key=self._measured_at.__getitem__):
            if version.is_whole:
                key = version.prepared.name, version.version
                pids = version.pids | version.parent_pids
                self._measured[key] = sum(map(proportional_bytes, pids))
                self._measured_at[version] = monotonic()
            if monotonic() > began + TURN_S:
                return
