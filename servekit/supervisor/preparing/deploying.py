# SPDX-License-Identifier: Apache-2.0
"""Applies the operator's settings of a model to its manifest. Runs in: the prepare child.

Everything after it sees one manifest, as if its author had written it so.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from servekit_archiver import Manifest
from servekit_archiver.manifest import Stage

from servekit.errors import StartupError
from servekit.ipc.batches import PREDICT
from servekit.ipc.table import SettingRow
from servekit.settings.deployments import Deployment, ReplicaRange, StageSettings
from servekit.settings.models import ModelSource
from servekit.settings.values import did_you_mean
from servekit.supervisor.preparing.stage_values import StageValues, fitting

__all__ = ["Deployed", "deploy"]


@dataclass(slots=True)
class Deployed:
    """A manifest with the operator's settings, and where each value is from."""

    manifest: Manifest
    settings: list[SettingRow] = field(default_factory=list)
    pass_env: list[str] = field(default_factory=list)
    on_demand: bool = False  #: loaded when the first request comes
    idle_s: float = 0.0  #: time without a request after which it is unloaded; 0: never
    environments: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """The variables of the replicas of each stage, in turn."""
    ranges: dict[str, ReplicaRange] = field(default_factory=dict)
    """By stage, where the number of replicas follows the load."""
    preloaded: set[str] = field(default_factory=set)
    """Stages whose replicas come from a parent that has imported the service."""
    max_memory: dict[str, int] = field(default_factory=dict)
    """By stage, in bytes; 0 for none."""
    cpus: dict[str, list[int]] = field(default_factory=dict)
    """By stage."""
    threads: dict[str, int] = field(default_factory=dict)
    """By stage; 0 for the share of the cores."""


def deploy(
    manifest: Manifest,
    deployments: Iterable[Deployment],
    path: str,
    environment: Mapping[str, str],
) -> Deployed:
    """Return *manifest* with the values of *deployments*, of which a later one wins.

    :param deployments: of several models; those of other names are left out.
    :param path: where the model is, or the URL.
    :param environment: that of the server, which may limit its devices.
    :raises StartupError: one names an unknown stage, an unknown device, or a key that the stage
        does not have.
    """
    layers = [each for each in deployments if each.name in ("", manifest.name)]
    for layer in layers:
        _check_stages(manifest, layer)
    deployed = Deployed(manifest)
    stages = {}
    for name, stage in manifest.every_stage.items():
        prefix = f"stages.{name}." if manifest.stages else ""
        values = StageValues(stage)
        for source, given in _given(layers, name, stage):
            values.overlay(given, source)
        stages[name] = values.applied(stage, environment)
        deployed.environments[name] = values.environments
        deployed.max_memory[name] = values.max_memory
        deployed.cpus[name] = values.cpus
        deployed.threads[name] = values.threads
        if values.preload:
            deployed.preloaded.add(name)
        if values.range is not None:
            deployed.ranges[name] = values.range
        deployed.settings += values.rows(prefix)
    deployed.manifest = _with_stages(manifest, stages)
    _add_others(deployed, layers, path)
    return deployed


def _check_stages(manifest: Manifest, layer: Deployment) -> None:
    known = manifest.every_stage if manifest.stages else {}
    for name, given in layer.stages.items():
        where = f"{layer.source}: {manifest.name}.stages.{name}"
        if name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known) or 'none'}"
            raise StartupError(f"{where}: the model has no such stage{hint}")
        host = known[name].host
        if host is not None and set(msgspec.to_builtins(given)) - {"options"}:
            raise StartupError(f"{where}: runs in the workers of {host}; only options can be set")
    if layer.options and manifest.service is None:
        stages = ", ".join(known)
        text = f"the model itself has no service; set stages.NAME.options, for one of {stages}"
        raise StartupError(f"{layer.source}: {manifest.name}.options: {text}")


def _given(
    layers: Iterable[Deployment], name: str, stage: Stage
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables for a stage, each with its source, the strongest last.

    Options of the model are those of its own service; its other values are for every stage that
    has workers.
    """
    shared = {"options"} if name == PREDICT else set()
    if stage.host is None:
        shared |= {*StageSettings.__struct_fields__} - {"options"}
    for layer in layers:
        table = msgspec.to_builtins(layer)
        if table.get("replicas") == 0:
            del table["replicas"]  # it says when the model is loaded, not with how many
        yield layer.source, {key: value for key, value in table.items() if key in shared}
        yield layer.source, table.get("stages", {}).get(name, {})


def _with_stages(manifest: Manifest, stages: Mapping[str, Stage]) -> Manifest:
    others = {
        name: stage
        if stage.host is None
        else dataclasses.replace(stage, warm_up=fitting(stage.warm_up, stages[stage.host].batching))
        for name, stage in stages.items()
        if name in manifest.stages
    }
    own = stages.get(PREDICT) if manifest.service is not None else None
    names = ("options", "batching", "warm_up", "worker") if own else ()
    return dataclasses.replace(
        manifest, stages=others, **{name: getattr(own, name) for name in names}
    )


def _add_others(deployed: Deployed, layers: Sequence[Deployment], path: str) -> None:
    """Add the settings of the whole model."""
    rows = {"path": SettingRow("path", ModelSource(path).shown, "--models")}
    for layer in layers:
        if layer.path == path:
            rows["path"].source = layer.source
        if layer.sha256:
            rows["sha256"] = SettingRow("sha256", layer.sha256, layer.source)
        if layer.pass_env:
            rows["pass_env"] = SettingRow("pass_env", layer.pass_env, layer.source)
            deployed.pass_env = layer.pass_env
        if layer.idle_s is not None:
            rows["idle_s"] = SettingRow("idle_s", layer.idle_s, layer.source)
            deployed.idle_s = layer.idle_s
        if layer.replicas is not None:
            deployed.on_demand = layer.replicas == 0
            rows["replicas"] = SettingRow("replicas", layer.replicas, layer.source)
    zero = rows.pop("replicas", None)
    if deployed.on_demand and zero is not None:
        deployed.settings = [row for row in deployed.settings if row.name != "replicas"]
        deployed.settings.insert(0, zero)
    deployed.settings += rows.values()
