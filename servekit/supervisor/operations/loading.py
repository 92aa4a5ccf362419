# SPDX-License-Identifier: Apache-2.0
"""Takes models and versions in and out, and loads what has changed."""

from msgspec import structs

from servekit.ipc.operations import Load, ReloadModels, Unload
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.operations.progress import OperationFailed, Progress
from servekit.supervisor.operations.server import (
    CONFLICT,
    UNPROCESSABLE,
    OperatedServer,
    load_version,
    prepare_version,
    source_of,
    version_of,
)
from servekit.supervisor.os.user import user_of_model

__all__ = ["add_version", "check_unload", "load_model", "reload_models", "unload"]


async def load_model(
    server: OperatedServer, newcomer: Model, order: Load, progress: Progress
) -> None:
    """Serve *newcomer*, or its version as one more of the model that has its name.

    :raises OperationFailed: it cannot be loaded, or its name or one of its paths is taken.
    """
    registry = server.registry
    try:
        version = await prepare_version(newcomer, newcomer.source, progress)
        name = progress.row.model = version.prepared.name
        if registry.find(name) is not None:
            model = _idle_owner(server, version)
            with model.work.occupied("load"):
                if _has_same_user(server, version, model):
                    await _add(server, model, _handed_over(version, model), progress)
                else:
                    version.files.release()
                    await add_version(server, model, order, progress)
            model.is_changed = True
            return
        _require_name(server, newcomer, version)
        await _admit(server, newcomer, version, progress)
        _require_name(server, newcomer, version)  # somebody else may have taken it meanwhile
        newcomer.make_default(version)
        newcomer.is_changed = True
        registry.add(newcomer)
    finally:
        if newcomer not in registry:
            registry.remove(newcomer)


def _idle_owner(server: OperatedServer, version: ModelVersion) -> Model:
    """Return the model that has the name of *version* already.

    :raises OperationFailed: it is busy.
    """
    try:
        return server.idle_model(version.prepared.name)
    except OperationFailed:
        version.files.release()
        raise


def _has_same_user(server: OperatedServer, version: ModelVersion, model: Model) -> bool:
    """Whether *version* was prepared for the user that the workers of *model* run as."""
    users, number = server.registry.settings.worker_user, model.number
    return version.prepared.user == user_of_model(users, number, number + 1)


def _handed_over(version: ModelVersion, model: Model) -> ModelVersion:
    """Return *version*, which was prepared for a newcomer, as one of *model*."""
    source = structs.replace(version.source, name=model.name)
    scaled = {} if source.sets_replicas else model.scaled
    own = model.versions.new(version.prepared, version.files, source, scaled)
    if model.versions.default is not None:
        own.begin_as(model.versions.default)
    return own


def _require_name(server: OperatedServer, newcomer: Model, version: ModelVersion) -> None:
    """Check that no other model has the name of *version*.

    :raises OperationFailed: one has it, or one that differs in case only.
    """
    name, registry = version.prepared.name, server.registry
    problem = registry.claims.name_problem(newcomer, name)
    if registry.find(name) is not None:  # maybe it is not prepared yet
        problem = problem or f"{name} is the name of another model"
    if problem:
        version.files.release()
        raise OperationFailed(CONFLICT, problem)


async def add_version(
    server: OperatedServer, model: Model, order: Load, progress: Progress
) -> None:
    """Load one more version of *model*, which gets no traffic; one of the same name goes.

    :raises OperationFailed: it cannot be loaded.
    """
    source = source_of(order.source, model.name, order.settings)
    await _add(server, model, await prepare_version(model, source, progress), progress)


async def _add(
    server: OperatedServer, model: Model, version: ModelVersion, progress: Progress
) -> None:
    await _admit(server, model, version, progress)
    old = model.versions.default
    if old is None:
        model.failure = ""
        model.make_default(version)
    elif old.version == version.version:
        model.make_default(version)
        model.versions.retire(old)
    else:
        model.versions.publish(version, as_default=False)


async def _admit(
    server: OperatedServer, model: Model, version: ModelVersion, progress: Progress
) -> None:
    """Load *version*, or let it sleep until a request asks for it, as its settings say.

    :raises OperationFailed: it cannot be loaded, or one of its paths is taken.
    """
    if not version.prepared.on_demand:
        await load_version(server, model, version, progress)
        return
    if problem := server.registry.claims.path_problem(model, version.row):
        version.files.release()
        raise OperationFailed(CONFLICT, problem)
    version.is_asleep = True


def check_unload(order: Unload, model: Model) -> None:
    """Check that the version that *order* names, if it names one, has no traffic.

    :raises OperationFailed: it has, or there is no such version.
    """
    if not order.version or any(m.version == order.version for m in model.versions.missing):
        return
    version, wanted = version_of(model, order.version), model.traffic.wanted
    if version is model.versions.default:
        reason = f"{version.version} is the default version; swap it, or unload the model"
        raise OperationFailed(CONFLICT, reason)
    if wanted.weights.get(version.version) or wanted.mirror == version.version:
        reason = f"{version.version} has traffic; change the weights or the mirror first"
        raise OperationFailed(CONFLICT, reason)


async def unload(server: OperatedServer, model: Model, order: Unload, progress: Progress) -> None:
    """Let the version or the model finish its requests and leave."""
    if not order.version:
        with progress.step("unload", model.name):
            server.registry.remove(model)
            await model.versions.until(lambda: not model.pids)
        return
    if model.versions.forget_missing(order.version):
        progress.row.version = order.version
        model.traffic.forget(order.version)
        return
    version = version_of(model, order.version)
    progress.row.version = version.version
    with progress.step("unload", version.version):
        model.traffic.forget(version.version)
        model.versions.retire(version, "unloaded")
        await model.versions.until(lambda: not version.pids)


async def reload_models(server: OperatedServer, order: ReloadModels, progress: Progress) -> None:
    """Load what has changed of the model, or of all models.

    :raises OperationFailed: a version cannot be loaded; the one before it serves.
    """
    models = [server.model(order.model)] if order.model else list(server.registry)
    for model in models:
        server.registry.load(model)
    refused = []
    for model in models:
        with progress.step("reload", model.name) as step:
            await model.work.until_idle()
            step.detail = f"{model.label}{model.refusal and f': {model.refusal}'}"
            refused += [step.detail] if model.refusal else []
    if refused:
        raise OperationFailed(UNPROCESSABLE, "; ".join(refused))
