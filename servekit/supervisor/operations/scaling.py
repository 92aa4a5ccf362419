# SPDX-License-Identifier: Apache-2.0
"""Changes the number of replicas of a model."""

from contextlib import suppress

from servekit.counting import counted
from servekit.ipc.operations import Scale
from servekit.settings.deployments import ReplicaRange, Replicas
from servekit.settings.model_tables import replica_range
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.operations.progress import OperationFailed, Progress
from servekit.supervisor.operations.server import (
    NO_MEMORY,
    UNPROCESSABLE,
    OperatedServer,
    version_of,
)
from servekit.supervisor.replicas.lifecycle import State

__all__ = ["check_scale", "scale"]


def check_scale(order: Scale, model: Model) -> None:
    """Check that *order* makes sense.

    :raises OperationFailed: it does not, or *model* has no such version or stage.
    """
    wanted_by(order)
    version = version_of(model, order.version)
    if order.stage and order.stage not in version.counts:
        stages = ", ".join(filter(None, version.counts)) or "none"
        reason = f"{model.name} has no stage {order.stage!r}; stages with replicas: {stages}"
        raise OperationFailed(UNPROCESSABLE, reason)


def wanted_by(order: Scale) -> Replicas:
    """Return the number or the range that *order* names.

    :raises OperationFailed: there cannot be so many replicas.
    """
    if isinstance(order.replicas, dict):
        try:
            return ReplicaRange(**replica_range("replicas", order.replicas))
        except ValueError as error:
            raise OperationFailed(UNPROCESSABLE, str(error)) from error
    if order.replicas < 1:
        raise OperationFailed(UNPROCESSABLE, "replicas: a stage needs at least 1")
    return order.replicas


async def scale(server: OperatedServer, model: Model, order: Scale, progress: Progress) -> None:
    """Carry out *order* for each version and stage that it means.

    :raises OperationFailed: a new worker did not load; each stage has as many replicas as before.
    """
    wanted = wanted_by(order)
    meant = _meant(order, model)
    before: list[tuple[ModelVersion, str, int]] = []
    try:
        for version, stage in meant:
            count = version.counts[stage]
            if count != wanted:
                label = "/".join(filter(None, (version.version, stage)))
                with progress.step("scale", f"{label}: {_shown(wanted)}"):
                    await _resize(server, model, version, stage, _number(wanted, version, stage))
                before.append((version, stage, count))
    except OperationFailed as error:
        if before:
            with progress.step("roll back", str(error)):
                await _undo(model, before)
        raise
    for version, stage in meant:
        version.scaled[stage] = wanted
    if not order.version:
        stages = [order.stage] if order.stage else version_of(model, "").counts
        model.scaled = model.scaled | dict.fromkeys(stages, wanted)


def _meant(order: Scale, model: Model) -> list[tuple[ModelVersion, str]]:
    """Return the versions and stages that *order* means."""
    versions = [each for each in model.versions.served if each is not model.kept]
    if order.version:
        versions = [version_of(model, order.version)]
    stages = [order.stage] if order.stage else None
    return [
        (version, stage)
        for version in versions
        for stage in (stages or version.counts)
        if stage in version.counts
    ]


async def _undo(model: Model, before: list[tuple[ModelVersion, str, int]]) -> None:
    """Give each stage as many replicas again as it had *before*; new ones load later."""
    for version, stage, count in before:
        with suppress(OSError):  # no descriptor is left for a socket, or no room on the disk
            version.resize(stage, count)
    await model.versions.until(lambda: not any(version.is_shrinking for version, *_ in before))


def _shown(wanted: Replicas) -> str:
    return counted(wanted, "replica") if isinstance(wanted, int) else f"{wanted} replicas"


def _number(wanted: Replicas, version: ModelVersion, stage: str) -> int:
    return wanted if isinstance(wanted, int) else wanted.nearest(version.counts[stage])


async def _resize(
    server: OperatedServer, model: Model, version: ModelVersion, stage: str, count: int
) -> None:
    before = version.counts[stage]
    server.require_memory(version, count - before, 0)
    try:
        added = version.resize(stage, count)
    except OSError as error:  # no descriptor is left for a socket, or no room on the disk
        version.resize(stage, before)
        reason = f"cannot be launched: {error.strerror}"
        raise OperationFailed(NO_MEMORY, reason) from error
    await model.versions.until(lambda: all(replica.has_settled for replica in added))
    failed = [replica for replica in added if replica.state is not State.SERVING]
    if failed:
        reason = failed[0].reason
        version.resize(stage, before)
        raise OperationFailed(UNPROCESSABLE, f"a worker cannot be loaded: {reason}")
    await model.versions.until(lambda: not version.is_shrinking)
