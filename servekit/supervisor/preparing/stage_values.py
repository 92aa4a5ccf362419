# SPDX-License-Identifier: Apache-2.0
"""The values that one stage is served with, and the source of each. Runs in: the prepare child."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from math import lcm
from typing import Any, Final

from servekit_archiver.manifest import Batching, Stage, WarmUp, WorkerSettings

from servekit.errors import StartupError
from servekit.ipc.table import SettingRow
from servekit.settings.cpu_lists import cpu_numbers
from servekit.settings.deployments import ReplicaRange
from servekit.settings.model_tables import MAX_REPLICAS
from servekit.supervisor.preparing.devices import VISIBLE, device_values, shared_out

__all__ = ["StageValues", "fitting"]

Leaf = tuple[str, ...]  #: the keys that lead to a value: ("batching", "max_batch_size")

DEFAULT, ARCHIVE, DEVICES = "default", "archive", "devices"
REPLICAS: Final = ("replicas",)
MERGED: Final = ("env", "options", "batching")  #: tables whose keys are separate settings
ORDER: Final = (
    "replicas",
    "max_memory",
    "preload",
    "ranks",
    "cpus",
    "threads",
    "devices",
    "batching",
    "env",
    "options",
)
DEFAULTS: Final = {
    "replicas": WorkerSettings().replicas,
    "ranks": WorkerSettings().ranks,
    "preload": WorkerSettings().preload,
    "batching": Batching().to_mapping(),
}


class StageValues:
    """The values of one stage, each with its source."""

    def __init__(self, stage: Stage) -> None:
        worker = stage.worker
        tables = worker.env if isinstance(worker.env, tuple) else (worker.env,)
        self._tables = [dict(table) for table in tables]  # the archive's, for the replicas in turn
        self._found: dict[Leaf, SettingRow] = {}
        self.environments = self._tables
        self.range: ReplicaRange | None = None  #: if the number of replicas follows the load
        archive: dict[str, Any] = {
            "options": stage.to_mapping()["options"],
            "env": self._tables[0] if len(self._tables) == 1 else {},
        }
        if stage.host is None:
            archive |= {"replicas": worker.replicas, "ranks": worker.ranks}
            archive["preload"] = worker.preload
            archive["batching"] = stage.batching.to_mapping()
        self.overlay(archive, ARCHIVE)
        defaults = dict(_leaves(DEFAULTS))
        for leaf, row in self._found.items():
            if leaf in defaults and row.value == defaults[leaf]:
                row.source = DEFAULT

    @property
    def cpus(self) -> list[int]:
        """The CPUs that its processes share; empty if they are not pinned.

        :raises StartupError: the server may not use one of them.
        """
        wanted = cpu_numbers(text) if (text := self._value("cpus")) else []
        if foreign := set(wanted) - os.sched_getaffinity(0):
            raise StartupError(f"cpus: {text}: the server may not use CPU {min(foreign)}")
        return wanted

    @property
    def threads(self) -> int:
        """The threads of each process; 0 for its share of the cores."""
        return self._value("threads") or 0

    @property
    def max_memory(self) -> int:
        """The memory above which a replica is replaced, in bytes; 0 for none."""
        return self._value("max_memory") or 0

    @property
    def preload(self) -> bool:
        """Whether the replicas come from a parent that has imported the service."""
        return bool(self._value("preload"))

    def overlay(self, table: Mapping[str, Any], source: str) -> None:
        """Take the values of *table* in place of those there are."""
        for leaf, value in _leaves(table):
            replaced = [old for old in self._found if _overlap(old, leaf)]
            if value == {} and any(len(old) > len(leaf) for old in replaced):
                continue  # a table without keys changes none
            for old in replaced:
                del self._found[old]
            self._found[leaf] = SettingRow(".".join(leaf), value, source)

    def rows(self, prefix: str) -> list[SettingRow]:
        """Return the values in a fixed order, with *prefix* before their names."""
        if len(self._tables) > 1:
            self._found["env",] = SettingRow("env", self._tables, ARCHIVE)
        ordered = sorted(self._found.items(), key=lambda item: (ORDER.index(item[0][0]), item[0]))
        return [SettingRow(prefix + row.name, row.value, row.source) for _, row in ordered]

    def applied(self, stage: Stage, environment: Mapping[str, str]) -> Stage:
        """Return *stage* with these values."""
        if stage.host is not None:
            return dataclasses.replace(stage, options=self._table("options"))
        ranks = self._value("ranks")
        devices = shared_out(device_values(self._value("devices"), environment), ranks)
        replicas = self._found[REPLICAS]
        if len(devices) > 1 and replicas.source == DEFAULT:
            replicas.value, replicas.source = len(devices), DEVICES
        self.environments = self._environments(devices)
        count, own = replicas.value, self.environments
        if isinstance(count, dict):
            self.range = ReplicaRange(**count)
            count = self.range.min
        env = tuple(own[place % len(own)] for place in range(count)) if len(own) > 1 else own[0]
        batching = Batching(**self._table("batching"))
        return dataclasses.replace(
            stage,
            options=self._table("options"),
            batching=batching,
            warm_up=fitting(stage.warm_up, batching),
            worker=dataclasses.replace(stage.worker, replicas=count, ranks=ranks, env=env),
        )

    def _environments(self, devices: Sequence[str]) -> list[dict[str, str]]:
        own: dict[str, str] = self._table("env")
        count = min(lcm(len(self._tables), len(devices) or 1), MAX_REPLICAS)
        return [
            self._tables[place % len(self._tables)]
            | own
            | ({VISIBLE: devices[place % len(devices)]} if devices else {})
            for place in range(count)
        ]

    def _value(self, name: str) -> Any:
        row = self._found.get((name,))
        return row.value if row else None

    def _table(self, name: str) -> dict[str, Any]:
        """Return the table of the values below *name*."""
        table: dict[str, Any] = {}
        for leaf, row in self._found.items():
            if leaf[0] == name and len(leaf) > 1:
                place = table
                for key in leaf[1:-1]:
                    place = place.setdefault(key, {})
                place[leaf[-1]] = row.value
        return table


def _leaves(table: Mapping[str, Any], above: Leaf = ()) -> Iterator[tuple[Leaf, Any]]:
    """Yield each value with its keys; an empty table is a value too, except on top."""
    for key, value in table.items():
        leaf = (*above, key)
        is_merged = bool(above) or key in MERGED
        if isinstance(value, Mapping) and is_merged and (value or not above):
            yield from _leaves(value, leaf)
        else:
            yield leaf, value


def _overlap(one: Leaf, other: Leaf) -> bool:
    """Whether one of them leads through the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def fitting(warm_up: WarmUp | None, batching: Batching) -> WarmUp | None:
    """Leave out batches that are larger than the operator allows."""
    if warm_up is None:
        return None
    sizes = [size for size in warm_up.batch_sizes if size <= batching.max_batch_size]
    return WarmUp(batch_sizes=tuple(sizes))
