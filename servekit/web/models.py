# SPDX-License-Identifier: Apache-2.0
"""``/models`` of the management listener: what each model is served with, and how it is."""

from collections.abc import Sequence

from flask import Flask, Response
from msgspec import UNSET, Struct, UnsetType, json

from servekit.ipc.model_counters import Label, read_waiting
from servekit.ipc.table import ModelRow, ReplicaRow, SettingRow, TrafficRow, stage_rows
from servekit.system.processes import usage_of
from servekit.web.table import find_model
from servekit.web.view import RoutingView, ServerView

__all__ = ["ModelList", "ModelState", "add_models"]


class ReplicaState(Struct, kw_only=True):
    """One replica, and what its worker uses."""

    index: int
    stage: str | UnsetType = UNSET  #: set for a model with several stages
    state: str
    reason: str  #: why it does not serve, or why the worker before it ended
    pid: int | None  #: of rank 0; the processor time and the memory are those of all its ranks
    restarts: int
    cpu_s: float | None = None  #: processor time since it started
    memory_bytes: int | None = None  #: resident memory; pages that workers share count for each


class QueueState(Struct, kw_only=True):
    """The queue of a version, or of one stage of it; each front-end has a part of it."""

    stage: str | UnsetType = UNSET  #: set for a model with several stages
    waiting: int  #: tasks, in all front-ends
    capacity: int  #: how many may wait, in all front-ends


class VersionState(Struct, kw_only=True):
    """One loaded version of a model."""

    version: str
    description: str
    is_ready: bool
    is_asleep: bool  #: it has no replicas until a request comes
    reason: str  #: why it cannot be loaded
    max_batch_size: int
    predict_timeout_s: float
    replicas: list[ReplicaState]
    queues: list[QueueState]  #: one for each stage
    settings: list[SettingRow] | UnsetType = UNSET  #: with ``/models/NAME`` only


class ModelState(VersionState, kw_only=True):
    """A model by its default version."""

    name: str
    waiting: int  #: tasks in all its queues
    capacity: int  #: how many may wait in them
    versions: list[VersionState]  #: the other loaded versions
    traffic: TrafficRow


class ModelList(Struct):
    """All models."""

    models: list[ModelState]


def add_models(app: Flask, server: ServerView) -> None:
    """Add ``/models`` and ``/models/NAME``."""

    def models() -> Response:
        routing, view = server.routing, QueueView(server)
        states = [_state(routing, row, view) for row in routing.table.models]
        return _json(ModelList(states))

    def model(name: str) -> Response:
        routing = server.routing
        row = find_model(routing.table, name)
        state = _state(routing, row, QueueView(server))
        for version, each in zip((state, *state.versions), (row, *row.versions), strict=True):
            version.settings = each.settings
        return _json(state)

    app.add_url_rule("/models", "models", models)
    app.add_url_rule("/models/<name>", "model", model)


def _json(document: Struct) -> Response:
    return Response(json.encode(document), mimetype="application/json")


class QueueView:
    """The queues as they are at one moment."""

    def __init__(self, server: ServerView) -> None:
        """Read them."""
        self._front_ends = server.settings.front_ends
        self._waiting = read_waiting(server.counters)

    def queues_of(self, row: ModelRow) -> list[QueueState]:
        """Return the queues of the version in *row*."""
        return [
            QueueState(
                stage=stage.stage or UNSET,
                waiting=self._waiting.get(Label(stage.label, row.version), 0),
                capacity=row.capacity * self._front_ends,
            )
            for stage in stage_rows(row)
        ]


def _state(routing: RoutingView, row: ModelRow, view: QueueView) -> ModelState:
    stages, versions = stage_rows(row), [_version(each, view) for each in row.versions]
    queues = view.queues_of(row)
    all_queues = [*queues, *(queue for version in versions for queue in version.queues)]
    return ModelState(
        name=row.name,
        version=row.version,
        description=row.description,
        is_ready=all(routing.live_replicas(stage.label) > 0 for stage in stages),
        is_asleep=row.is_asleep,
        reason=row.reason or row.refusal,
        max_batch_size=row.max_batch_size,
        predict_timeout_s=row.predict_timeout_s,
        replicas=_replicas(row.replicas),
        queues=queues,
        waiting=sum(queue.waiting for queue in all_queues),
        capacity=sum(queue.capacity for queue in all_queues),
        versions=versions,
        traffic=row.traffic,
    )


def _version(row: ModelRow, view: QueueView) -> VersionState:
    return VersionState(
        version=row.version,
        description=row.description,
        is_ready=row.is_ready,
        is_asleep=row.is_asleep,
        reason=row.reason or row.refusal,
        max_batch_size=row.max_batch_size,
        predict_timeout_s=row.predict_timeout_s,
        replicas=_replicas(row.replicas),
        queues=view.queues_of(row),
    )


def _replicas(rows: Sequence[ReplicaRow]) -> list[ReplicaState]:
    return [_replica(row) for row in rows]


def _replica(row: ReplicaRow) -> ReplicaState:
    state = ReplicaState(
        index=row.index,
        stage=row.stage or UNSET,
        state=row.state,
        reason=row.reason,
        pid=row.pid or None,
        restarts=max(0, row.generation - 1),
    )
    if row.pid and (usage := usage_of(row.pid)) is not None:
        others = [used for pid in row.followers if (used := usage_of(pid)) is not None]
        state.cpu_s, state.memory_bytes = map(sum, zip(usage, *others, strict=True))
    return state
