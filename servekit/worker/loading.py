# SPDX-License-Identifier: Apache-2.0
"""Makes a loaded service of a directory and its manifest."""

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servekit_archiver import Manifest

from servekit.errors import BootError
from servekit.messages import Interface
from servekit.plugins import create_plugin_manager
from servekit.service import Context, Service
from servekit.worker.annotations import BatchTypes, TypedInput, batch_types
from servekit.worker.codecs.table import CodecTable
from servekit.worker.examples import run_examples
from servekit.worker.finding import find_service
from servekit.worker.inputs import AnyInput, InputKind
from servekit.worker.interface import describe
from servekit.worker.predictor import Predictor
from servekit.worker.reading import BodyReaders
from servekit.worker.writing import Plans

__all__ = ["Loaded", "Loading", "load_service", "wrap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """What to load, and the place it gets."""

    directory: Path
    manifest: Manifest
    replica: int = 0
    replicas: int = 1
    threads: int = 1
    max_batch_size: int = 32
    max_answer_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Loaded:
    """A service that is ready to predict."""

    service: Service
    predictor: Predictor
    interface: Interface


def load_service(loading: Loading) -> Loaded:
    """Import, load and warm up the service, and run the manifest's examples.

    :raises StartupError: servekit cannot serve it; whatever else is raised is the author's.
    """
    sys.path.insert(0, str(loading.directory))
    manager = create_plugin_manager()
    manifest = loading.manifest
    service = find_service(manifest.service, loading.directory, manager)()
    if manifest.signature is not None:
        service.signature = manifest.signature.to_mapping()
    service.load(_context(loading))
    loaded = wrap(service, CodecTable(manager), max_answer_bytes=loading.max_answer_bytes)
    service.warm_up()
    run_examples(manifest.examples, loading.directory, loaded.predictor)
    return loaded


def _context(loading: Loading) -> Context:
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
    )


def wrap(service: Service, table: CodecTable, *, max_answer_bytes: int = 1 << 30) -> Loaded:
    """Put *service*, whose ``load`` is done, behind a ``Predictor`` made for it.

    :raises BootError: its signature or its annotations contradict themselves.
    """
    types = batch_types(service)
    kind = _input_kind(service.signature, types)
    interface = describe(service, types, table)
    predictor = Predictor(
        service,
        kind,
        BodyReaders(table),
        Plans(table, interface.produces),
        has_own_json=not table.is_builtin("application/json"),
        max_answer_bytes=max_answer_bytes,
    )
    return Loaded(service, predictor, interface)


def _input_kind(signature: Mapping[str, Any] | None, types: BatchTypes) -> InputKind:
    if signature is None:
        return AnyInput() if types.input is Any else TypedInput(types.input)
    if types.input is not Any:
        raise BootError(
            "predict: annotated as a list though there is a signature, with which the batch is "
            "a mapping of names to arrays; keep one of the two"
        )
    from servekit.worker.signature import SignedInput  # imports numpy

    return SignedInput(signature)
