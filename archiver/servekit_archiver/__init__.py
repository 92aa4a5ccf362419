# SPDX-License-Identifier: Apache-2.0
"""Build, inspect, verify and unpack model archives: the format, and nothing else.

    build_archive("digits", "digits.mar")       directory -> archive
    open_archive("digits.mar")                  archive -> manifest, verify, extract
    unpack("digits.mar")                        archive -> directory in the cache
    load_directory("digits")                    directory -> manifest, for development
    write_signed("digits.mar", ...)             archive -> archive with a signature

A name is imported when it is first used: a worker needs the manifest and no zip reader.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from servekit_archiver.version import __version__

if TYPE_CHECKING:
    from servekit_archiver.archive.builder import Built, build_archive
    from servekit_archiver.archive.foreign import ForeignArchive, open_foreign_archive
    from servekit_archiver.archive.reader import Archive, open_archive
    from servekit_archiver.archive.signing import write_signed
    from servekit_archiver.cache.places import Unpacked, default_cache_dir
    from servekit_archiver.cache.unpack import unpack
    from servekit_archiver.directory.locking import lock_directory
    from servekit_archiver.directory.model_directory import (
        EnclosedArchive,
        load_directory,
        open_directory,
    )
    from servekit_archiver.errors import ArchiveError, ManifestError
    from servekit_archiver.hookspecs import hookimpl
    from servekit_archiver.limits import Limits
    from servekit_archiver.manifest import (
        DTYPES,
        RESERVED_NAMES,
        Asset,
        Batching,
        Example,
        FileInfo,
        Lock,
        Manifest,
        Route,
        Signature,
        Stage,
        Step,
        Tensor,
        WarmUp,
        WorkerSettings,
    )

__all__ = [
    "DTYPES",
    "RESERVED_NAMES",
    "Archive",
    "ArchiveError",
    "Asset",
    "Batching",
    "Built",
    "EnclosedArchive",
    "Example",
    "FileInfo",
    "ForeignArchive",
    "Limits",
    "Lock",
    "Manifest",
    "ManifestError",
    "Route",
    "Signature",
    "Stage",
    "Step",
    "Tensor",
    "Unpacked",
    "WarmUp",
    "WorkerSettings",
    "__version__",
    "build_archive",
    "default_cache_dir",
    "file_in",
    "hookimpl",
    "load_directory",
    "lock_directory",
    "open_archive",
    "open_directory",
    "open_foreign_archive",
    "unpack",
    "write_signed",
]

#: where a name comes from; the others are the manifest's
_HOME = {
    "Archive": "archive.reader",
    "ArchiveError": "errors",
    "Built": "archive.builder",
    "EnclosedArchive": "directory.model_directory",
    "ForeignArchive": "archive.foreign",
    "Limits": "limits",
    "ManifestError": "errors",
    "Unpacked": "cache.places",
    "build_archive": "archive.builder",
    "default_cache_dir": "cache.places",
    "file_in": "names",
    "hookimpl": "hookspecs",
    "load_directory": "directory.model_directory",
    "lock_directory": "directory.locking",
    "open_archive": "archive.reader",
    "open_directory": "directory.model_directory",
    "open_foreign_archive": "archive.foreign",
    "unpack": "cache.unpack",
    "write_signed": "archive.signing",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'manifest')}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
