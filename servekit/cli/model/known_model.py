# SPDX-License-Identifier: Apache-2.0
"""Reads what is known about a model without loading it, for the commands that show it."""

import argparse
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from servekit_archiver import ArchiveError, Manifest, unpack

from servekit.cli.model.manifest import manifest_of
from servekit.description.interface import PathDescription
from servekit.description.routes import describe_models
from servekit.errors import StartupError
from servekit.ipc.table import Interface, ModelRow, StageRow
from servekit.settings import load_settings
from servekit.supervisor.models.routes import named_routes, routes_of_endpoints
from servekit.supervisor.os.environment import worker_environment
from servekit.supervisor.os.process import python_module
from servekit.supervisor.os.resources import usable_cores

__all__ = ["KnownModel", "add_arguments", "read"]


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model, as far as it is known."""

    manifest: Manifest
    paths: Sequence[PathDescription]  #: one for each path, ``/predict`` first
    is_imported: bool = False  #: whether its code was imported, too
    bounds: Mapping[str, int] = field(default_factory=dict)  #: ``max_concurrency`` of async stages

    def at(self, path: str | None) -> PathDescription:
        """Return the description of *path*; ``None`` is the first one.

        :raises StartupError: nothing answers there.
        """
        for each in self.paths:
            if path in (None, each.path):
                return each
        known = ", ".join(each.path for each in self.paths)
        raise StartupError(f"{self.manifest.name}: nothing answers at {path}; known: {known}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the model, and how closely to look at it."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="archive or model directory")
    parser.add_argument(
        "--import",
        action="store_true",
        dest="imports",
        help="also import the modules of its services, for types and endpoints; this runs their"
        " code, with the rights of the caller, but constructs and loads nothing",
    )
    parser.add_argument("--cache-dir", metavar="DIR", help="where --import unpacks an archive")


def add_path(parser: argparse.ArgumentParser, words: str) -> None:
    """Add the argument that names one of the paths of the model."""
    parser.add_argument(
        "--path",
        type=_path,
        metavar="PATH",
        help=f"{words} (a route or an endpoint), such as /v1/embeddings",
    )


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} does not begin with /")
    return text


def read(parsed: argparse.Namespace) -> KnownModel:
    """Return the model that the arguments name.

    :raises StartupError: the model is refused, or its service cannot be imported.
    """
    manifest = manifest_of(parsed.model, parsed.cache_dir)
    known = import_services(parsed.model, manifest, parsed.cache_dir) if parsed.imports else {}
    stages = {name if manifest.stages else "": name for name in manifest.every_stage}
    bounds = {
        stages[name]: manifest.every_stage[stages[name]].batching.max_concurrency
        for name, interface in known.items()
        if interface.is_async
    }
    return KnownModel(manifest, describe_models([_row(manifest, known)]), parsed.imports, bounds)


def _row(manifest: Manifest, known: Mapping[str, Interface]) -> ModelRow:
    """Return the row that the model would have in the routing table of a server."""
    table, name = manifest.to_mapping(), manifest.name
    row = ModelRow(name, manifest.version, manifest.description, [], 1, 0.0, 0.0, 1, manifest=table)
    row.routes = [*named_routes(name, table), *routes_of_endpoints(name, table, known)]
    row.interface = known.get("")
    if manifest.stages:
        row.stages = [StageRow(each, 1, 0.0, 0.0, known.get(each)) for each in manifest.every_stage]
    return row


def import_services(path: Path, manifest: Manifest, cache_dir: str | None) -> dict[str, Interface]:
    """Return what the code of each stage declares; a separate process imports it.

    :raises StartupError: it cannot be imported; that process has printed the reason.
    """
    directory = path.absolute() if path.is_dir() else _unpacked(path, cache_dir)
    workers = [stage.worker for stage in manifest.every_stage.values()]
    variables = {name: text for each in workers for name, text in each.variables(0).items()}
    done = subprocess.run(
        python_module("servekit.worker.boot.describe", str(directory)),
        input=manifest.to_json(),
        stdout=subprocess.PIPE,
        cwd=directory,
        env=worker_environment(os.environ, usable_cores(), variables),
        check=False,
    )
    if done.returncode or not done.stdout:  # code may exit with 0
        raise StartupError(f"{path}: its service cannot be imported")
    return msgspec.json.decode(done.stdout, type=dict[str, Interface])


def _unpacked(path: Path, cache_dir: str | None) -> Path:
    cache = load_settings({"cache_dir": cache_dir}).cache_dir
    try:
        return Path(unpack(path, Path(cache) if cache else None).directory)
    except ArchiveError as error:
        raise StartupError(str(error)) from error
