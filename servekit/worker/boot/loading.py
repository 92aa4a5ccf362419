# SPDX-License-Identifier: Apache-2.0
"""Makes a loaded service of a directory and its manifest."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from servekit_archiver import Manifest

from servekit.errors import BootError, StartupError
from servekit.ipc.stream_formats import STREAM_FORMATS
from servekit.plugins import PluginManager, create_plugin_manager
from servekit.service.base import Context, Service
from servekit.service.metrics import Metrics
from servekit.worker.boot.assembly import body_readers, wrap
from servekit.worker.boot.examples import run_examples
from servekit.worker.boot.service_lookup import find_service
from servekit.worker.boot.warming import run_batches, samples_of
from servekit.worker.codecs.table import CodecTable
from servekit.worker.process.logger import attach
from servekit.worker.serving.loaded import Loaded
from servekit.worker.streaming.stepping import CurrentMembers

__all__ = ["Loading", "load_class", "load_service", "prove"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """What to load, and the place it gets."""

    directory: Path
    manifest: Manifest
    assets: Mapping[str, Path] = field(default_factory=dict)
    replica: int = 0
    replicas: int = 1
    stage: str = ""
    threads: int = 1
    max_batch_size: int = 32
    max_answer_bytes: int = 1 << 30
    log_format: str = ""  #: ``text`` or ``json``; "" leaves the logger as it is
    log_level: str = "info"
    is_dev: bool = False  #: see ``Launch``
    beside: Mapping[str, Manifest] = field(default_factory=dict)  #: stages that are loaded too
    handed_on: Sequence[str] = ()  #: stages whose outputs never leave the worker

    def of_stage(self, stage: str) -> "Loading":
        """Return what one of the stages beside this one is loaded by."""
        return replace(self, manifest=self.beside[stage], stage=stage, beside={})


def load_service(loading: Loading) -> Loaded:
    """Import, load and warm up the service, and those beside it.

    :raises StartupError: servekit cannot serve it; whatever else is raised is the author's.
    """
    sys.path.insert(0, str(loading.directory))
    manager = create_plugin_manager()
    state = WorkerState(manager)
    if loading.log_format:
        is_json = loading.log_format == "json"
        name, ids = loading.manifest.name, state.current_ids
        attach(name, loading.log_level, is_json=is_json, current_ids=ids)

    def load(part: Loading, metrics: Metrics) -> Loaded:
        with _named(part.stage if loading.beside else ""):
            kind = find_service(part.manifest.service or "", part.directory, manager)
            return _load(kind, part, state, metrics)

    metrics = state.metrics
    loaded = load(loading, metrics)
    beside = {name: load(loading.of_stage(name), metrics.beside(name)) for name in loading.beside}
    for each in beside.values():  # a run hands on what is whole
        each.interface.produces = [
            kind for kind in each.interface.produces if kind not in STREAM_FORMATS
        ]
    everyone = {loading.stage: loaded.targets}
    everyone |= {name: each.targets for name, each in beside.items()}
    loaded.targets.stages = everyone
    measures = () if metrics.descriptor is None else (metrics.descriptor,)
    return replace(loaded, beside=beside, measures=measures)


def load_class(kind: type[Service], loading: Loading, manager: PluginManager) -> Loaded:
    """Make a *kind* that is ready to predict, whatever class the manifest names."""
    state = WorkerState(manager)
    return _load(kind, loading, state, state.metrics)


class WorkerState:
    """What the services of one worker share."""

    def __init__(self, manager: PluginManager) -> None:
        """Have no service yet."""
        self.table = CodecTable(manager)
        self.metrics = Metrics()
        self.batches: list[CurrentMembers] = []  #: of each service; one of them has a batch

    def current_ids(self) -> list[str]:
        """Return the ids of the requests that a ``predict`` has now."""
        return next(filter(None, (batch.ids() for batch in self.batches)), [])


def _load(kind: type[Service], loading: Loading, state: WorkerState, metrics: Metrics) -> Loaded:
    service, manifest, table = kind(), loading.manifest, state.table
    if manifest.signature is not None:
        service.signature = manifest.signature.to_mapping()
    current = CurrentMembers(body_readers(service, table))
    state.batches.append(current)
    service.load(_context(loading, current, metrics))
    metrics.seal()
    loaded = wrap(
        service,
        table,
        current,
        max_answer_bytes=loading.max_answer_bytes,
        is_dev=loading.is_dev,
        is_handed_on=loading.stage in loading.handed_on,
    )
    service.warm_up()
    return loaded


@contextmanager
def _named(stage: str) -> Iterator[None]:
    """Say of an error which *stage* it is of; "": there is only one."""
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


def prove(loaded: Loaded, loading: Loading) -> None:
    """Run the examples, and batches of the sizes that the manifest asks for, of all services.

    :raises BootError: one fails.
    """
    manifest, predictor = loading.manifest, loaded.predictor
    with _named(loading.stage if loading.beside else ""):
        run_examples(manifest.examples, loading.directory, predictor)
        if manifest.warm_up is not None:
            samples = samples_of(manifest, loading.directory, loaded.service)
            run_batches(manifest.warm_up.batch_sizes, samples, predictor)
    for name, each in loaded.beside.items():
        with _named(name):
            prove(each, loading.of_stage(name))


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
