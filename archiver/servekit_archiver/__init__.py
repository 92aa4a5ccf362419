# SPDX-License-Identifier: Apache-2.0
"""Build, inspect, verify and unpack model archives: the format, and nothing else.

    build_archive("digits", "digits.mar")       directory -> archive
    open_archive("digits.mar")                  archive -> manifest, verify, extract
    unpack("digits.mar")                        archive -> directory in the cache
    load_directory("digits")                    directory -> manifest, for development

A name is imported when it is first used: a worker needs the manifest and no zip reader.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from servekit_archiver.version import __version__

if TYPE_CHECKING:
    from servekit_archiver.assets import Asset
    from servekit_archiver.builder import Built, build_archive
    from servekit_archiver.cache import Unpacked, default_cache_dir, unpack
    from servekit_archiver.directory import load_directory
    from servekit_archiver.errors import ArchiveError, ManifestError
    from servekit_archiver.hookspecs import hookimpl
    from servekit_archiver.limits import Limits
    from servekit_archiver.manifest import DTYPES, RESERVED_NAMES, Manifest
    from servekit_archiver.reader import Archive, open_archive
    from servekit_archiver.stages import Route, Stage, Step
    from servekit_archiver.tables import (
        Batching,
        Example,
        FileInfo,
        Signature,
        Tensor,
        WarmUp,
        Worker,
    )

__all__ = [
    "DTYPES",
    "RESERVED_NAMES",
    "Archive",
    "ArchiveError",
    "Asset",
    "Batching",
    "Built",
    "Example",
    "FileInfo",
    "Limits",
    "Manifest",
    "ManifestError",
    "Route",
    "Signature",
    "Stage",
    "Step",
    "Tensor",
    "Unpacked",
    "WarmUp",
    "Worker",
    "__version__",
    "build_archive",
    "default_cache_dir",
    "hookimpl",
    "load_directory",
    "open_archive",
    "unpack",
]

_HOME = {
    "assets": ("Asset",),
    "builder": ("Built", "build_archive"),
    "cache": ("Unpacked", "default_cache_dir", "unpack"),
    "directory": ("load_directory",),
    "errors": ("ArchiveError", "ManifestError"),
    "hookspecs": ("hookimpl",),
    "limits": ("Limits",),
    "manifest": ("DTYPES", "RESERVED_NAMES", "Manifest"),
    "reader": ("Archive", "open_archive"),
    "stages": ("Route", "Stage", "Step"),
    "tables": ("Batching", "Example", "FileInfo", "Signature", "Tensor", "WarmUp", "Worker"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
