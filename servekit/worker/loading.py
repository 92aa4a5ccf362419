# SPDX-License-Identifier: Apache-2.0
"""Makes a loaded service of a directory and its manifest."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pluggy
from servekit_archiver import Manifest

from servekit.errors import BootError, StartupError
from servekit.measuring import Metrics
from servekit.messages import Interface
from servekit.plugins import create_plugin_manager
from servekit.service import Context, Service
from servekit.stream_formats import STREAM_FORMATS
from servekit.worker.annotations import BatchTypes, batch_types, stream_types
from servekit.worker.codecs.table import CodecTable
from servekit.worker.examples import run_examples
from servekit.worker.files import file_rules
from servekit.worker.finding import find_service
from servekit.worker.inputs import AnyInput, InputKind
from servekit.worker.interface import describe
from servekit.worker.logger import attach
from servekit.worker.predictor import Predictor
from servekit.worker.reading import BodyReaders
from servekit.worker.stepping import CurrentMembers, Stepping, first_step
from servekit.worker.targets import Targets
from servekit.worker.typed import TypedInput
from servekit.worker.warming import run_batches, samples_of
from servekit.worker.writing import Plans

__all__ = ["Loaded", "Loading", "load_class", "load_service", "prove", "wrap"]


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
    beside: Mapping[str, Manifest] = field(default_factory=dict)  #: stages that are loaded too

    def of_stage(self, stage: str) -> "Loading":
        """Return what one of the stages beside this one is loaded by."""
        return replace(self, manifest=self.beside[stage], stage=stage, beside={})


@dataclass(frozen=True, slots=True)
class Loaded:
    """A service that is ready to predict, or several."""

    service: Service
    predictor: Predictor
    interface: Interface
    targets: Targets
    stepping: Stepping | None = None  #: where its outputs come one by one
    measures: Sequence[int] = ()  #: the descriptor of its metrics, if it has some
    beside: Mapping[str, "Loaded"] = field(default_factory=dict)  #: stages of the same worker

    @property
    def services(self) -> list[Service]:
        """All of the worker."""
        return [self.service, *(each.service for each in self.beside.values())]


def load_service(loading: Loading) -> Loaded:
    """Import, load and warm up the service, and those beside it.

    :raises StartupError: servekit cannot serve it; whatever else is raised is the author's.
    """
    sys.path.insert(0, str(loading.directory))
    manager = create_plugin_manager()
    surroundings = Surroundings(manager)
    if loading.log_format:
        is_json = loading.log_format == "json"
        name, ids = loading.manifest.name, surroundings.current_ids
        attach(name, loading.log_level, is_json=is_json, current_ids=ids)

    def load(part: Loading, metrics: Metrics) -> Loaded:
        with _named(part.stage if loading.beside else ""):
            kind = find_service(part.manifest.service or "", part.directory, manager)
            return _load(kind, part, surroundings, metrics)

    metrics = surroundings.metrics
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


def load_class(kind: type[Service], loading: Loading, manager: pluggy.PluginManager) -> Loaded:
    """Make a *kind* that is ready to predict, whatever class the manifest names."""
    surroundings = Surroundings(manager)
    return _load(kind, loading, surroundings, surroundings.metrics)


class Surroundings:
    """What the services of one worker share."""

    def __init__(self, manager: pluggy.PluginManager) -> None:
        """Have no service yet."""
        self.table = CodecTable(manager)
        self.metrics = Metrics()
        self.batches: list[CurrentMembers] = []  #: of each service; one of them has a batch

    def current_ids(self) -> list[str]:
        """Return the ids of the requests that a ``predict`` has now."""
        return next(filter(None, (batch.ids() for batch in self.batches)), [])


def _load(
    kind: type[Service], loading: Loading, surroundings: Surroundings, metrics: Metrics
) -> Loaded:
    service, manifest, table = kind(), loading.manifest, surroundings.table
    if manifest.signature is not None:
        service.signature = manifest.signature.to_mapping()
    current = CurrentMembers(_body_readers(service, table))
    surroundings.batches.append(current)
    service.load(_context(loading, current, metrics))
    metrics.seal()
    loaded = wrap(service, table, current, max_answer_bytes=loading.max_answer_bytes)
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


def wrap(
    service: Service,
    table: CodecTable,
    current: CurrentMembers | None = None,
    *,
    max_answer_bytes: int = 1 << 30,
) -> Loaded:
    """Put *service*, whose ``load`` is done, behind a ``Predictor`` made for it.

    :param current: what it sees of the batch in hand, if it got a ``Context``.

    :raises BootError: its signature or its annotations contradict themselves.
    """
    current = current or CurrentMembers(_body_readers(service, table))
    stepping = Stepping(service, current) if first_step(service) else None
    wrap_one = partial(_wrap, table, current, max_answer_bytes)
    predictor, interface = wrap_one(service, stepping)
    targets = Targets(service, predictor, wrap_one)
    interface.endpoints = targets.rows
    return Loaded(service, predictor, interface, targets, stepping)


def _wrap(
    table: CodecTable,
    current: CurrentMembers,
    max_answer_bytes: int,
    service: Service,
    stepping: Stepping | None = None,
) -> tuple[Predictor, Interface]:
    types = _types(service)
    kind = _input_kind(service.signature, types)
    interface = describe(service, types, table, streams=stepping is not None)
    predictor = Predictor(
        service,
        kind,
        Plans(table, interface.produces),
        current,
        _body_readers(service, table),
        predict=stepping.predict if stepping else None,
        has_own_json=not table.is_builtin("application/json"),
        max_answer_bytes=max_answer_bytes,
    )
    return predictor, interface


def _types(service: Service) -> BatchTypes:
    first = first_step(service)
    return stream_types(service, first) if first else batch_types(service)


def _body_readers(service: Service, table: CodecTable) -> BodyReaders:
    """Return readers that leave to *service* what its annotations call a file."""
    return BodyReaders(table, file_rules(_types(service).input))


def _input_kind(signature: Mapping[str, Any] | None, types: BatchTypes) -> InputKind:
    if signature is None:
        return AnyInput() if types.input is Any else TypedInput(types.input, types.place)
    if types.input is not Any:
        raise BootError(
            "predict: annotated as a list though there is a signature, with which the batch is "
            "a mapping of names to arrays; keep one of the two"
        )
    from servekit.worker.signature import SignedInput  # imports numpy

    return SignedInput(signature)
