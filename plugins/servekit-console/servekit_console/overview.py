# SPDX-License-Identifier: Apache-2.0
"""The first page: every model with its replicas, its load and what is wrong with it."""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, convert

from servekit_console.live import LiveRates, combined
from servekit_console.samples import NOTHING, Rates
from servekit_console.sparklines import SHOWN, spark_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from servekit.extension import Server
    from servekit_console.collector import Reader
    from servekit_console.history import HistoryPage

__all__ = [
    "SPARKS",
    "ModelSummary",
    "Overview",
    "OverviewPage",
    "ReplicaCell",
    "VersionShare",
    "current_rates",
    "sparks_of",
    "summary_of",
]

#: fields of ``Rates`` with a small chart; how those of several versions are joined
SPARKS: Final[dict[str, Callable[[Iterable[float]], float]]] = {
    "requests_per_s": sum,
    "p99_s": max,
    "waiting": sum,
    "batch_size": max,
    "errors_per_s": sum,
}
#: states of models, the worst first
SEVERITIES: Final = ("down", "degraded", "loading", "ready", "asleep")
EVENTS: Final = 12  #: lines of the log that are shown
SERVING: Final = "serving"


class ReplicaCell(Struct, kw_only=True):
    """One replica."""

    index: int
    stage: str  #: "" if the model has no others
    version: str
    state: str
    reason: str
    pid: int | None
    restarts: int
    memory_bytes: int | None
    cpu_s: float | None


class VersionShare(Struct, kw_only=True):
    """One version, and what share of the requests it answers."""

    version: str
    share: float
    aliases: list[str]
    is_default: bool


class ModelSummary(Struct, kw_only=True):
    """One model."""

    name: str
    version: str
    description: str
    state: str  #: one of ``SEVERITIES``
    reason: str  #: why it is not ready
    versions: list[VersionShare]
    replicas: list[ReplicaCell]
    restarts: int
    memory_bytes: int
    capacity: int  #: tasks that may wait
    rates: Rates
    sparks: dict[str, str] = {}  #: paths of SVG by field of ``Rates``

    @property
    def serving(self) -> int:
        """How many replicas take tasks."""
        return sum(cell.state == SERVING for cell in self.replicas)


class Overview(Struct, kw_only=True):
    """The whole page."""

    models: list[ModelSummary]
    total: Rates
    memory_bytes: int
    problems: Sequence[str]  #: why the server is not ready
    crashes: int  #: crash reports that are kept
    events: list[dict[str, Any]]  #: the last lines of the log

    @property
    def ready(self) -> int:
        """How many models can answer."""
        return sum(each.state in ("ready", "degraded") for each in self.models)


class OverviewPage:
    """Makes the page."""

    def __init__(self, server: Server, live: LiveRates, reader: Reader) -> None:
        """Show *server*."""
        self._server, self._live, self._reader = server, live, reader

    def build(self) -> Overview:
        """Return the page as it is now."""
        history = self._reader.history(list(SPARKS))
        rates = current_rates(self._live, self._reader)
        states = self._server.read_management("/models")["models"]
        models = [summary_of(state, rates) for state in states]
        for each in models:
            each.sparks = sparks_of(history, keys_of(each))
        models.sort(key=lambda each: (SEVERITIES.index(each.state), each.name))
        lines = self._server.read_management("/logs?limit=200")["lines"]
        return Overview(
            models=models,
            total=combined([each.rates for each in models]),
            memory_bytes=sum(each.memory_bytes for each in models),
            problems=self._server.why_not_ready(),
            crashes=len(self._server.read_management("/crashes")["crashes"]),
            events=[line for line in lines if line["event"] != "output"][: -EVENTS - 1 : -1],
        )

    def sparks(self) -> dict[str, list[str]]:
        """Return the paths of the small charts of each model, in the order of ``SPARKS``."""
        history = self._reader.history(list(SPARKS))
        found = {}
        for name, model in self._server.models.items():
            versions = {model.version, *(each.version for each in model.others.values())}
            keys = [f"{name}/{version}" for version in versions]
            found[name] = list(sparks_of(history, keys).values())
        return found


def current_rates(live: LiveRates, reader: Reader) -> dict[str, Rates]:
    """Return live rates, or the newest of the history if nobody has looked for a while."""
    found = live.read()
    if found:
        return found
    history = reader.history(list(Rates.__struct_fields__))
    return {key: _newest(history, key) for key in history.series}


def summary_of(state: Mapping[str, Any], rates: Mapping[str, Rates]) -> ModelSummary:
    """Return the summary of a model.

    :param state: as ``GET /models`` of management shows it.
    :param rates: by key of the version.
    """
    name, loaded = state["name"], [state, *state["versions"]]
    cells = [_cell(row, each["version"]) for each in loaded for row in each["replicas"]]
    keys = [f"{name}/{each['version']}" for each in loaded]
    reason = state["reason"] or next((cell.reason for cell in cells if cell.reason), "")
    return ModelSummary(
        name=name,
        version=state["version"],
        description=state["description"],
        state=_state_of(state, cells),
        reason="" if reason == "loading" else reason,
        versions=_shares(state, loaded),
        replicas=cells,
        restarts=sum(cell.restarts for cell in cells),
        memory_bytes=sum(cell.memory_bytes or 0 for cell in cells),
        capacity=state["capacity"],
        rates=combined([rates[key] for key in keys if key in rates]),
    )


def keys_of(model: ModelSummary) -> list[str]:
    """Return the keys of the versions of *model*."""
    return [f"{model.name}/{each.version}" for each in model.versions]


def sparks_of(history: HistoryPage, keys: Sequence[str]) -> dict[str, str]:
    """Return the paths of the small charts of a model whose versions have *keys*."""
    found = {}
    for field, join in SPARKS.items():
        series = [history.values(key, field)[-SHOWN:] for key in keys if key in history.series]
        longest = max(map(len, series), default=0)
        if len(series) == 1:
            found[field] = spark_path(series[0])
            continue
        padded = [[*[nan] * (longest - len(each)), *each] for each in series]
        found[field] = spark_path([_joined(join, point) for point in zip(*padded, strict=True)])
    return found


def _joined(join: Callable[[Iterable[float]], float], point: Iterable[float]) -> float:
    known = [value for value in point if value == value]
    return join(known) if known else nan


def _newest(history: HistoryPage, key: str) -> Rates:
    series = {field: history.values(key, field) for field in Rates.__struct_fields__}
    if not series["requests_per_s"]:
        return NOTHING
    values = {
        field: None if isnan(numbers[-1]) else numbers[-1] for field, numbers in series.items()
    }
    return convert(values, Rates, strict=False)


def _cell(row: Mapping[str, Any], version: str) -> ReplicaCell:
    return ReplicaCell(
        index=row["index"],
        stage=row.get("stage", ""),
        version=version,
        state=row["state"],
        reason=row["reason"],
        pid=row["pid"],
        restarts=row["restarts"],
        memory_bytes=row.get("memory_bytes"),
        cpu_s=row.get("cpu_s"),
    )


def _state_of(state: Mapping[str, Any], cells: Sequence[ReplicaCell]) -> str:
    if state["is_asleep"]:
        return "asleep"
    if state["is_ready"]:
        return "ready" if all(cell.state == SERVING for cell in cells) else "degraded"
    is_loading = state["reason"] in ("", "loading") and all(c.state == "starting" for c in cells)
    return "loading" if is_loading else "down"


def _shares(state: Mapping[str, Any], loaded: Sequence[Mapping[str, Any]]) -> list[VersionShare]:
    traffic, default = state["traffic"], state["version"]
    weights = traffic["weights"] or {default: 1}
    total = sum(weights.values()) or 1
    return [
        VersionShare(
            version=each["version"],
            share=weights.get(each["version"], 0) / total,
            aliases=[a for a, v in traffic["aliases"].items() if v == each["version"]],
            is_default=each["version"] == default,
        )
        for each in loaded
    ]
