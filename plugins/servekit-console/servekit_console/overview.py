# SPDX-License-Identifier: Apache-2.0
"""The first page: every model with its replicas, its load and what is wrong with it."""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, convert

from servekit_console.live import LiveRates, combined
from servekit_console.samples import NOTHING, Rates
from servekit_console.sparklines import SHOWN, spark_path
from servekit_console.units import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from servekit.extension import Server
    from servekit_console.collector import Reader
    from servekit_console.history import HistoryPage

__all__ = [
    "JOINS",
    "SPARKS",
    "ModelSummary",
    "Overview",
    "OverviewPage",
    "ReplicaCell",
    "VersionShare",
    "current_rates",
    "joined",
    "sparks_of",
    "summary_of",
]

#: how a field of ``Rates`` of several versions is joined
JOINS: Final[dict[str, Callable[[Iterable[float]], float]]] = {
    "requests_per_s": sum,
    "refused_per_s": sum,
    "errors_per_s": sum,
    "p50_s": max,
    "p99_s": max,
    "batch_size": max,
    "queue_s": max,
    "predict_s": max,
    "waiting": sum,
    "running": sum,
}
#: fields with a small chart
SPARKS: Final = ("requests_per_s", "p99_s", "waiting", "batch_size", "errors_per_s")
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
    events: list[dict[str, Any]]  #: the last lines of the log, for those who may see inputs

    @property
    def ready(self) -> int:
        """How many models can answer."""
        return sum(each.state in ("ready", "degraded") for each in self.models)


class OverviewPage:
    """Makes the page."""

    def __init__(
        self, server: Server, live: LiveRates, reader: Reader, may_see_inputs: Callable[[], bool]
    ) -> None:
        """Show *server*.

        :param may_see_inputs: whether this client may see what other clients send.
        """
        self._server, self._live, self._reader = server, live, reader
        self._may_see_inputs = may_see_inputs

    def build(self) -> Overview:
        """Return the page as it is now."""
        history = self._reader.history(list(SPARKS))
        rates = current_rates(self._live, self._reader)
        states = self._server.read_management("/models")["models"]
        models = [summary_of(state, rates) for state in states]
        for each in models:
            each.sparks = sparks_of(history, keys_of(each))
        models.sort(key=lambda each: (SEVERITIES.index(each.state), each.name))
        return Overview(
            models=models,
            total=combined([each.rates for each in models]),
            memory_bytes=sum(each.memory_bytes for each in models),
            problems=self._server.why_not_ready(),
            crashes=len(self._server.read_management("/crashes")["crashes"]),
            events=self._events(),
        )

    def news(self) -> tuple[Any, ...]:
        """Return what is wrong and what has happened: another value when either changes."""
        return tuple(self._server.why_not_ready()), self._events()[:1]

    def memory(self) -> dict[str, str]:
        """Return the memory of each model, and of all together (""), as they are shown."""
        states = self._server.read_management("/models")["models"]
        sizes = {each["name"]: memory_of(each) for each in states}
        return {name: memory(size) for name, size in {**sizes, "": sum(sizes.values())}.items()}

    def _events(self) -> list[dict[str, Any]]:
        """Return the last lines of the log, the newest first; what workers print is left out."""
        if not self._may_see_inputs():
            return []
        lines = self._server.read_management("/logs?limit=200")["lines"]
        return [line for line in lines if line["event"] != "output"][: -EVENTS - 1 : -1]

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


def memory_of(state: Mapping[str, Any]) -> int:
    """Return the bytes of memory that the workers of a model have, as ``GET /models`` shows it."""
    rows = (row for each in (state, *state["versions"]) for row in each["replicas"])
    return sum(row.get("memory_bytes") or 0 for row in rows)


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
        memory_bytes=memory_of(state),
        capacity=state["capacity"],
        rates=combined([rates[key] for key in keys if key in rates]),
    )


def keys_of(model: ModelSummary) -> list[str]:
    """Return the keys of the versions of *model*."""
    return [f"{model.name}/{each.version}" for each in model.versions]


def sparks_of(history: HistoryPage, keys: Sequence[str]) -> dict[str, str]:
    """Return the paths of the small charts of a model whose versions have *keys*."""
    return {field: spark_path(joined(history, keys, field, SHOWN)) for field in SPARKS}


def joined(history: HistoryPage, keys: Sequence[str], field: str, points: int) -> Sequence[float]:
    """Return the last *points* of a *field* of all versions with *keys* together, the newest last.

    :return: fewer points if less is known; nan where nothing was measured.
    """
    series = [history.values(key, field)[-points:] for key in keys if key in history.series]
    if len(series) == 1:
        return series[0]
    longest = max(map(len, series), default=0)
    padded = [[*[nan] * (longest - len(each)), *each] for each in series]
    return [_join(JOINS[field], point) for point in zip(*padded, strict=True)]


def _join(join: Callable[[Iterable[float]], float], point: Iterable[float]) -> float:
    known = [value for value in point if not isnan(value)]
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
