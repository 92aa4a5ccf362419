# SPDX-License-Identifier: Apache-2.0
"""The order of a deployment: the models of each server, its settings and its resources."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from servekit.errors import StartupError
from servekit.settings import ModelSource, Settings, SettingsError, load_settings, parse_models
from servekit.settings.deployments import ReplicaRange, StageSettings
from servekit.settings.models import deployments_of, unknown_model
from servekit_ray.models import manifest_of, shipped_models
from servekit_ray.state import ServerOrder, ShippedModel

if TYPE_CHECKING:
    from servekit_archiver.manifest import Stage

__all__ = ["order_of"]

#: settings of servers that a deployment decides, and what to use instead
DECIDED: Final = {
    "SERVEKIT_HOST": "a server listens on the address of its Ray node",
    "SERVEKIT_BIND": "a server listens on the address of its Ray node; --port chooses the port",
    "SERVEKIT_PORT": "use --port",
    "SERVEKIT_MODELS": "name the models as arguments",
    "SERVEKIT_STRICT": "servers of a deployment are always strict",
    "SERVEKIT_LOG_FORMAT": "the actor of a server reads its log",
    "SERVEKIT_TLS_CLIENT_CA": "the controller has no certificate with which to ask the servers",
}


def order_of(
    models: Sequence[str],
    *,
    replicas: int,
    cpus: float | None,
    gpus: float,
    settings: Sequence[str],
    env: Mapping[str, str],
    port: int,
) -> ServerOrder:
    """Return the order for servers of *models*; the parameters are those of ``deploy``.

    :raises StartupError: a model has no name or is a directory, or a setting is refused.
    """
    known = server_settings(replicas, settings, env)
    shipped = shipped_models(models)
    if problem := unknown_model(known, shipped):
        raise StartupError(problem)
    workers = count_workers(models, known, gpus)
    return ServerOrder(
        models=shipped,
        replicas=replicas,
        settings=(*settings, *(device_settings(shipped, settings) if gpus else ())),
        env=dict(env),
        cpus=float(workers if cpus is None else cpus),
        gpus=float(gpus),
        port=port,
        workers=workers,
    )


def server_settings(replicas: int, settings: Sequence[str], env: Mapping[str, str]) -> Settings:
    """Return the settings with which the servers start, as far as they are known here.

    :raises StartupError: one is unknown or out of range, or is not for a deployment.
    """
    for name in DECIDED.keys() & env.keys():
        raise StartupError(f"--env {name}: cannot be set; {DECIDED[name]}")
    try:
        return load_settings({"replicas": replicas or None, "set": settings}, environment=env)
    except SettingsError as error:
        raise StartupError(f"the servers would not start: {error}") from error


def count_workers(models: Sequence[str], settings: Settings, gpus: float) -> int:
    """Return how many processes of models a server has, as far as their archives say.

    A model that has no manifest here, such as a URL, counts as one without stages.
    """
    sources = parse_models(models)
    return sum(_workers_of(source, settings, gpus) for source in sources)


def _workers_of(source: ModelSource, settings: Settings, gpus: float) -> int:
    manifest = manifest_of(source)
    name = source.name or (manifest.name if manifest else "")
    layers = deployments_of(settings, name)
    if manifest is None:
        return _processes(None, layers, 1)
    return sum(
        _processes(
            stage,
            [each for layer in layers for each in (layer, layer.stages.get(key))],
            max(1, int(gpus)),
        )
        for key, stage in manifest.every_stage.items()
        if stage.host is None
    )


def _processes(stage: "Stage | None", layers: Iterable[StageSettings | None], devices: int) -> int:
    """Return the processes of a stage: each rank of each replica."""
    replicas = stage.worker.replicas if stage else 1
    ranks = stage.worker.ranks if stage else 1
    is_default = replicas == 1
    for layer in layers:
        if layer is None:
            continue
        ranks = layer.ranks or ranks
        if layer.replicas:
            given = layer.replicas
            replicas = given.max if isinstance(given, ReplicaRange) else given
            is_default = False
    if is_default:  # one for each device
        replicas = max(1, devices // ranks)
    return replicas * ranks


def device_settings(models: Mapping[str, ShippedModel], settings: Sequence[str]) -> list[str]:
    """Return settings by which the workers of each model share the GPUs of their server."""
    given = {text.partition("=")[0] for text in settings}
    return [f"{name}.devices=auto" for name in models if f"{name}.devices" not in given]
