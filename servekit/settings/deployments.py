# SPDX-License-Identifier: Apache-2.0
"""The settings of one deployed model: ``[models.NAME]`` of ``servekit.toml``, and ``--set``."""

from typing import Any

import msgspec

__all__ = ["BatchingSettings", "Deployment", "ReplicaRange", "Replicas", "StageSettings"]


class ReplicaRange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Between how many replicas the server may choose."""

    min: int
    max: int

    def __str__(self) -> str:
        """``1 to 4``."""
        return f"{self.min} to {self.max}"

    def nearest(self, count: int) -> int:
        """Return the number in the range that is nearest to *count*."""
        return min(max(count, self.min), self.max)


Replicas = int | ReplicaRange  #: a number, or a number that follows the load


class BatchingSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As ``[batching]`` of ``model.toml``; ``None`` leaves the archive's value."""

    max_batch_size: int | None = None
    max_delay_ms: float | None = None
    max_concurrency: int | None = None
    max_batch_cost: float | None = None  #: only for archives that say what an input costs


class StageSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of a whole model or of one stage; ``None`` leaves the archive's value."""

    replicas: Replicas | None = None  #: 0, for a whole model: loaded on demand
    max_memory: int | None = None  #: bytes; a replica with more private memory is replaced
    ranks: int | None = None  #: processes of each replica
    cpus: str | None = None  #: CPUs that its processes share, each pinned to its own: "0-3"
    threads: int | None = None  #: of each process, in place of its share of the cores
    preload: bool | None = None  #: replicas come from a parent that has imported the service
    devices: str | list[int | str] | None = None  #: "auto", "cpu", or devices for the replicas
    env: dict[str, str] = {}  #: besides the archive's, and in place of variables of the same name
    options: dict[str, Any] = {}  #: likewise; tables are merged key by key
    batching: BatchingSettings = BatchingSettings()


class Deployment(StageSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of one model by one source; those of a later source win."""

    name: str = ""  #: the name of the model; "" is every model
    source: str = ""  #: as people know it: "servekit.toml", "--set"
    path: str = ""  #: an archive, a model directory or a URL; absolute
    sha256: str = ""  #: digest of the archive, in hexadecimal
    pass_env: list[str] = []  #: patterns of the operator's variables that its workers get
    stages: dict[str, StageSettings] = {}
    idle_s: float | None = None  #: time without a request after which it is unloaded
