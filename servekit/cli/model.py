# SPDX-License-Identifier: Apache-2.0
"""Reads what is known of a model without loading it; shared by the commands that show it."""

import argparse
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec
from servekit_archiver import ArchiveError, Manifest, unpack

from servekit.cli.manifest import manifest_of
from servekit.description.interface import Described, describe
from servekit.errors import StartupError
from servekit.messages import Interface
from servekit.settings import load_settings
from servekit.supervisor.environment import usable_cores, worker_environment
from servekit.supervisor.process import python_module

__all__ = ["Known", "add_arguments", "read"]


@dataclass(frozen=True, slots=True)
class Known:
    """A model as far as it is known."""

    manifest: Manifest
    described: Described


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which model, and how closely to look at it."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="archive or model directory")
    parser.add_argument(
        "--import",
        action="store_true",
        dest="imports",
        help="also import the module of its service, for the types of predict; this runs the"
        " module's code, with the rights of the caller, but constructs and loads nothing",
    )
    parser.add_argument("--cache-dir", metavar="DIR", help="where --import unpacks an archive")


def read(parsed: argparse.Namespace) -> Known:
    """Return what the arguments ask for.

    :raises StartupError: the model is refused, or its service cannot be imported.
    """
    manifest = manifest_of(parsed.model)
    known = import_service(parsed.model, manifest, parsed.cache_dir) if parsed.imports else None
    return Known(manifest, describe(manifest.to_mapping(), known))


def import_service(path: Path, manifest: Manifest, cache_dir: str | None) -> Interface | None:
    """Return what the code of the service declares, as a process of its own reads it.

    :raises StartupError: it cannot be imported; that process has said why.
    """
    directory = path.absolute() if path.is_dir() else _unpacked(path, cache_dir)
    done = subprocess.run(
        python_module("servekit.worker.describing", str(directory)),
        input=manifest.to_json(),
        stdout=subprocess.PIPE,
        cwd=directory,
        env=worker_environment(os.environ, usable_cores(), manifest.worker.variables(0)),
        check=False,
    )
    if done.returncode:
        raise StartupError(f"{path}: its service cannot be imported")
    return msgspec.json.decode(done.stdout, type=Interface | None)


def _unpacked(path: Path, cache_dir: str | None) -> Path:
    cache = load_settings({"cache_dir": cache_dir}).cache_dir
    try:
        return Path(unpack(path, Path(cache) if cache else None).directory)
    except ArchiveError as error:
        raise StartupError(str(error)) from error
