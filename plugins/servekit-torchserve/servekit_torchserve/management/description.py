# SPDX-License-Identifier: Apache-2.0
"""Models as servekit's management API shows them, in the form of TorchServe's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RUN_TIME", "ServedModelState", "ServedVersionState", "describe", "describe_replica"]

SOURCE: Final = "path"  #: the setting that says where a model comes from
RUN_TIME: Final = "run time"
SERVING: Final = "serving"


class SettingState(msgspec.Struct):
    """One setting of a version."""

    name: str
    value: Any = None
    source: str = ""  #: ``run time`` if an operator has changed it


class WorkerRow(msgspec.Struct):
    """One worker."""

    index: int
    state: str
    pid: int | None = None
    memory_bytes: int | None = None


class ServedVersionState(msgspec.Struct, kw_only=True):
    """One version, as ``GET /models/NAME`` of servekit shows it; other members are ignored."""

    version: str
    is_asleep: bool = False
    max_batch_size: int = 1
    predict_timeout_s: float = 0.0
    replicas: list[WorkerRow] = []
    settings: list[SettingState] = []

    def setting(self, name: str, default: Any = None) -> Any:
        """Return the value of a setting."""
        found = (each.value for each in self.settings if each.name == name)
        return next(found, default)

    @property
    def source(self) -> str:
        """The path or URL of its archive."""
        return str(self.setting(SOURCE, ""))

    @property
    def archive(self) -> str:
        """The name of its archive, as a registration names it."""
        return self.source.rpartition("/")[2] or self.source

    @property
    def is_loaded_at_run_time(self) -> bool:
        """Whether an operator has loaded it, while the server ran."""
        return any(each.name == SOURCE and each.source == RUN_TIME for each in self.settings)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest number of workers."""
        if self.is_asleep:
            return 0, 0
        wanted = self.setting("replicas", len(self.replicas))
        if isinstance(wanted, dict):
            return int(wanted["min"]), int(wanted["max"])
        return len(self.replicas), len(self.replicas)


class TrafficState(msgspec.Struct):
    """The split of the requests that name no version."""

    weights: dict[str, int] = {}


class ServedModelState(ServedVersionState, kw_only=True):
    """A model by the version that is servekit's default."""

    name: str
    waiting: int = 0
    capacity: int = 0
    versions: list[ServedVersionState] = []
    traffic: TrafficState = msgspec.field(default_factory=TrafficState)

    @property
    def default(self) -> ServedVersionState:
        """The version that answers where a request names none.

        The one with all the weight, or else the default of servekit.
        """
        weighted = [version for version, weight in self.traffic.weights.items() if weight]
        found = self._loaded(weighted[0]) if len(weighted) == 1 else None
        return found or self

    @property
    def every_version(self) -> Sequence[ServedVersionState]:
        """All versions, the default one first."""
        default = self.default
        return [default, *(each for each in (self, *self.versions) if each is not default)]

    def find(self, version: str) -> ServedVersionState | None:
        """Return the version *version*; "" is the default one."""
        return self._loaded(version) if version else self.default

    def _loaded(self, version: str) -> ServedVersionState | None:
        return next((each for each in (self, *self.versions) if each.version == version), None)


def describe(model: ServedModelState, version: ServedVersionState) -> dict[str, Any]:
    """Return the description of *version* of *model*."""
    least, most = version.bounds
    return {
        "modelName": model.name,
        "modelVersion": version.version,
        "modelUrl": version.archive,
        "runtime": "python",
        "minWorkers": least,
        "maxWorkers": most,
        "batchSize": version.max_batch_size,
        "maxBatchDelay": version.setting("batching.max_delay_ms", 0),
        "responseTimeout": round(version.predict_timeout_s),
        "loadedAtStartup": not version.is_loaded_at_run_time,
        "workers": [describe_replica(each) for each in version.replicas],
        "jobQueueStatus": {
            "remainingCapacity": max(0, model.capacity - model.waiting),
            "pendingRequests": model.waiting,
        },
    }


def describe_replica(replica: WorkerRow) -> dict[str, Any]:
    """Return one of ``workers``."""
    return {
        "id": str(replica.index),
        "status": "READY" if replica.state == SERVING else "UNLOADING",
        "memoryUsage": replica.memory_bytes or 0,
        "pid": replica.pid or -1,
        "gpu": False,
        "gpuUsage": "",
    }
