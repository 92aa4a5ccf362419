# SPDX-License-Identifier: Apache-2.0
"""From ``Launch``, or a directory and its manifest, to a loaded service."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from servekit_archiver import Manifest

from servekit.errors import BootError, StartupError
from servekit.ipc.control import Launch
from servekit.ipc.stream_formats import STREAM_FORMATS
from servekit.plugins import PluginManager, create_plugin_manager
from servekit.service.base import Context, Service
from servekit.service.metrics import Metrics
from servekit.worker.boot.assembly import assemble, body_readers
from servekit.worker.boot.service_lookup import find_service
from servekit.worker.codecs.table import CodecTable
from servekit.worker.process.log import attach
from servekit.worker.serving.loaded import Loaded
from servekit.worker.streaming.stepping import CurrentMembers

__all__ = ["Loading", "load_class", "load_service", "loading_of", "named_stage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """The service to load, and its place among the workers."""

    directory: Path
    manifest: Manifest
    assets: Mapping[str, Path] = field(default_factory=dict)
    replica: int = 0
    replicas: int = 1
    stage: str = ""
    threads: int = 1
    max_batch_size: int = 32
    max_answer_bytes: int = 1 << 30
    log_format: str = ""  #: ``text`` or ``json``; "" leaves the logger alone
    log_level: str = "info"
    is_dev: bool = False  #: see ``Launch``
    beside: Mapping[str, Manifest] = field(default_factory=dict)  #: further stages to load
    handed_on: Sequence[str] = ()  #: stages whose outputs never leave the worker

    def of_stage(self, stage: str) -> "Loading":
        """Return what one of the stages beside this one is loaded from."""
        return replace(self, manifest=self.beside[stage], stage=stage, beside={})


def loading_of(launch: Launch) -> Loading:
    """Return what *launch* asks to load."""
    return Loading(
        directory=Path(launch.directory),
        manifest=_manifest(launch.manifest),
        assets={name: Path(path) for name, path in launch.assets.items()},
        replica=launch.replica,
        replicas=launch.replicas,
        stage=launch.stage,
        threads=launch.threads,
        max_batch_size=launch.max_batch_size,
        max_answer_bytes=launch.max_answer_bytes,
        log_format=launch.log_format,
        log_level=launch.log_level,
        is_dev=launch.is_dev,
        beside={name: _manifest(each) for name, each in launch.beside.items()},
        handed_on=launch.handed_on,
    )


def _manifest(text: bytes) -> Manifest:
    return Manifest.from_mapping(msgspec.json.decode(text))


class WorkerState:
    """The state that the services of one worker share."""

    def __init__(self, manager: PluginManager) -> None:
        self.table = CodecTable(manager)
        self.metrics = Metrics()
        self.batches: list[CurrentMembers] = []  #: one for each service; at most one holds a batch

    def current_ids(self) -> list[str]:
        """Return the ids of the requests that a ``predict`` has now."""
        return next(filter(None, (batch.ids() for batch in self.batches)), [])


def load_service(loading: Loading) -> Loaded:
    """Import, load and warm up the service, and those beside it.

    :raises StartupError: servekit cannot serve it. Any other exception comes from its code.
    """
    sys.path.insert(0, str(loading.directory))
    manager = create_plugin_manager()
    state = WorkerState(manager)
    if loading.log_format:
        is_json, ids = loading.log_format == "json", state.current_ids
        attach(loading.manifest.name, loading.log_level, is_json=is_json, current_ids=ids)

    def load(part: Loading, metrics: Metrics) -> Loaded:
        with named_stage(part.stage if loading.beside else ""):
            kind = find_service(part.manifest.service or "", part.directory, manager)
            return _load(kind, part, state, metrics)

    metrics = state.metrics
    loaded = load(loading, metrics)
    beside = {name: load(loading.of_stage(name), metrics.beside(name)) for name in loading.beside}
    for each in beside.values():  # a run hands on whole outputs
        each.interface.produces = [
            name for name in each.interface.produces if name not in STREAM_FORMATS
        ]
    loaded.methods.stages = {
        loading.stage: loaded.methods,
        **{name: each.methods for name, each in beside.items()},
    }
    measures = () if metrics.descriptor is None else (metrics.descriptor,)
    return replace(loaded, beside=beside, measures=measures)


def load_class(kind: type[Service], loading: Loading, manager: PluginManager) -> Loaded:
    """Load a service of *kind*, whatever class the manifest names."""
    state = WorkerState(manager)
    return _load(kind, loading, state, state.metrics)


def _load(kind: type[Service], loading: Loading, state: WorkerState, metrics: Metrics) -> Loaded:
    service, manifest, table = kind(), loading.manifest, state.table
    if manifest.signature is not None:
        service.signature = manifest.signature.to_mapping()
    current = CurrentMembers(body_readers(service, table))
    state.batches.append(current)
    service.load(_context(loading, current, metrics))
    metrics.seal()
    loaded = assemble(
        service,
        table,
        current,
        max_answer_bytes=loading.max_answer_bytes,
        is_dev=loading.is_dev,
        is_handed_on=loading.stage in loading.handed_on,
    )
    service.warm_up()
    return loaded


def _context(loading: Loading, current: CurrentMembers, metrics: Metrics) -> Context:
    manifest = loading.manifest
    return Context(
        model=manifest.name,
        version=manifest.version,
        directory=loading.directory,
        replica=loading.replica,
        max_batch_size=loading.max_batch_size,
        threads=loading.threads,
        options=manifest.options,
        logger=logging.getLogger(manifest.name),
        replicas=loading.replicas,
        stage=loading.stage,
        assets=loading.assets,
        metrics=metrics,
        read_requests=current.requests,
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
