# SPDX-License-Identifier: Apache-2.0
"""From ``Launch``, or a directory and its manifest, to a loaded service."""

import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs
from servekit_archiver import Manifest

from servekit.errors import BootError, StartupError
from servekit.ipc.control import Launch
from servekit.ipc.stream_formats import STREAM_FORMATS
from servekit.plugins import PluginManager, create_plugin_manager
from servekit.service.base import Context, Service
from servekit.service.metrics import Metrics
from servekit.worker.boot.assembly import assemble, current_of, loop_of
from servekit.worker.boot.service_lookup import find_service
from servekit.worker.codecs.table import CodecTable
from servekit.worker.codecs.value import allow_pickles
from servekit.worker.prediction.tracing import Tracing
from servekit.worker.process.log import attach
from servekit.worker.serving.loaded import Loaded
from servekit.worker.streaming.stepping import CurrentMembers

if TYPE_CHECKING:
    from servekit.worker.transport.calls import CallSockets, StandIn

__all__ = ["Loading", "import_services", "load_class", "load_service", "loading_of", "named_stage"]


@dataclass(frozen=True, slots=True)
class Loading:
    """One service to load: the model's own, or that of a stage."""

    launch: Launch  #: with its ``stage``; ``colocated`` is empty for a stage that is loaded besides
    manifest: Manifest

    @property
    def directory(self) -> Path:
        """The unpacked archive."""
        return Path(self.launch.directory)

    def of_stage(self, stage: str) -> "Loading":
        """Return what one of the stages beside this one is loaded from."""
        text = self.launch.colocated[stage]
        return loading_of(structs.replace(self.launch, manifest=text, stage=stage, colocated={}))


def loading_of(launch: Launch) -> Loading:
    """Return the service that *launch* asks for."""
    return Loading(launch, Manifest.from_mapping(msgspec.json.decode(launch.manifest)))


def make_sockets(models: Collection[str]) -> "CallSockets":
    """Return what the services of a worker call *models* with."""
    from servekit.worker.transport.calls import CallSockets  # few models call others

    return CallSockets(models)


class WorkerState:
    """The state that the services of one worker share."""

    def __init__(self, manager: PluginManager, manifest: Manifest) -> None:
        self.table = CodecTable(manager)
        self.metrics = Metrics()
        self.calls = make_sockets(manifest.calls) if manifest.calls else None
        if manifest.pickle:
            allow_pickles()
        self.batches: list[CurrentMembers] = []  #: one for each service; at most one holds a batch

    def current(self) -> CurrentMembers | None:
        """Return what a ``predict`` has now, or ``None`` if none runs."""
        return next((batch for batch in self.batches if batch.ids()), None)


def load_service(loading: Loading) -> Loaded:
    """Import, load and warm up the service, and those beside it.

    :raises StartupError: servekit cannot serve it. Any other exception comes from its code.
    """
    sys.path.insert(0, str(loading.directory))
    manager, launch = create_plugin_manager(), loading.launch
    state = WorkerState(manager, loading.manifest)
    is_json = launch.log_format == "json"
    attach(loading.manifest.name, launch.log_level, is_json=is_json, current=state.current)

    def load(part: Loading, metrics: Metrics) -> Loaded:
        with named_stage(part.launch.stage if launch.colocated else ""):
            kind = find_service(part.manifest.service or "", part.directory, manager)
            return _load(kind, part, state, metrics)

    if launch.colocated and loading.manifest.batching.cost is not None:
        raise BootError("batching.cost: the stage shares its worker with others")
    metrics = state.metrics
    loaded = load(loading, metrics)
    colocated = {
        name: load(loading.of_stage(name), metrics.colocated(name)) for name in launch.colocated
    }
    if colocated:
        _refuse_async({launch.stage: loaded, **colocated})
    for each in colocated.values():  # a run hands on whole outputs
        for interface in (each.interface, *(row.interface for row in each.interface.endpoints)):
            interface.produces = [name for name in interface.produces if name not in STREAM_FORMATS]
    loaded.methods.stages = {
        launch.stage: loaded.methods,
        **{name: each.methods for name, each in colocated.items()},
    }
    measures = () if metrics.descriptor is None else (metrics.descriptor,)
    return replace(
        loaded,
        colocated=colocated,
        measures=measures,
        calls=state.calls,
        tracing=Tracing(manager),
    )


def _refuse_async(stages: Mapping[str, Loaded]) -> None:
    """Refuse *stages* that share a worker if one of them is async.

    :raises BootError: the others would block its event loop.
    """
    for name, each in stages.items():
        if each.loop is not None:
            raise BootError(
                f"stage {name}: {type(each.service).__name__} is async, and an async service "
                "cannot share its worker with other stages; remove colocated"
            )


def import_services(loading: Loading) -> None:
    """Import the service, and those beside it, without an instance of them."""
    sys.path.insert(0, str(loading.directory))
    manager = create_plugin_manager()
    for part in [loading, *(loading.of_stage(name) for name in loading.launch.colocated)]:
        find_service(part.manifest.service or "", part.directory, manager)


def load_class(
    kind: type[Service],
    loading: Loading,
    manager: PluginManager,
    stand_in: "StandIn | None" = None,
) -> Loaded:
    """Load a service of *kind*, whatever class the manifest names.

    :param stand_in: answers calls of other models, in place of the service's own.
    """
    state = WorkerState(manager, loading.manifest)
    return _load(kind, loading, state, state.metrics, stand_in)


def _load(
    kind: type[Service],
    loading: Loading,
    state: WorkerState,
    metrics: Metrics,
    stand_in: "StandIn | None" = None,
) -> Loaded:
    service, launch, table = kind(), loading.launch, state.table
    if launch.world_size > 1 and kind.follow is Service.follow:
        raise BootError(f"{kind.__name__} has no follow(), and ranks is {launch.world_size}")
    if loading.manifest.signature is not None:
        service.signature = loading.manifest.signature.to_mapping()
    loop, has_rows = loop_of(service), loading.manifest.rows
    current = current_of(service, table, loop, has_rows=has_rows)
    state.batches.append(current)
    context = _context(loading, current, metrics)
    if state.calls is not None:
        context = replace(context, caller=state.calls.caller(stand_in or service.stand_in))
    run = loop.call if loop is not None else _call
    run(service.load, context)
    metrics.seal()
    loaded = assemble(
        service,
        table,
        current,
        loop,
        has_rows=has_rows,
        max_batch_size=launch.max_batch_size,
        max_answer_bytes=launch.max_answer_bytes,
        cost=loading.manifest.batching.cost or "",
        max_batch_cost=loading.manifest.batching.max_batch_cost or 0.0,
        is_dev=launch.is_dev,
    )
    if not launch.rank:
        run(service.warm_up)
    return loaded


def _call(method: Callable[..., object], *arguments: object) -> None:
    method(*arguments)


def _context(loading: Loading, current: CurrentMembers, metrics: Metrics) -> Context:
    launch, manifest = loading.launch, loading.manifest
    return Context(
        model=manifest.name,
        version=manifest.version,
        directory=loading.directory,
        replica=launch.replica,
        max_batch_size=launch.max_batch_size,
        max_concurrency=launch.max_concurrency,
        threads=launch.threads,
        options=manifest.options,
        logger=logging.getLogger(manifest.name),
        replicas=launch.replicas,
        stage=launch.stage,
        assets={name: Path(path) for name, path in launch.assets.items()},
        metrics=metrics,
        read_requests=current.requests,
        rank=launch.rank,
        world_size=launch.world_size,
    )


@contextmanager
def named_stage(stage: str) -> Iterator[None]:
    """Put the name of the *stage* before the message of an error; "": there is only one."""
    try:
        yield
    except StartupError as error:
        if not stage:
            raise
        raise BootError(f"stage {stage}: {error}") from error.__cause__
    except BaseException as error:
        if not stage:
            raise
        raise BootError(f"stage {stage}: {type(error).__name__}: {error}") from error
