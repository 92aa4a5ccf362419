# SPDX-License-Identifier: Apache-2.0
"""Reads the manifest of a model that is not to be served."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servekit_archiver import (
    ArchiveError,
    EnclosedArchive,
    Manifest,
    ManifestError,
    default_cache_dir,
    open_archive,
    open_directory,
)

from servekit.errors import StartupError
from servekit.settings import load_settings

__all__ = ["manifest_of", "refusing"]


def manifest_of(path: Path, cache_dir: str | None = None) -> Manifest:
    """Return the manifest of an archive, or of a model directory.

    :param cache_dir: where an archive of another format is unpacked; default: that of the settings.
    :raises StartupError: it is refused; one line for each problem.
    """
    with refusing():
        held = open_directory(path) if path.is_dir() else EnclosedArchive(path)
        if isinstance(held, Manifest):
            return held
        return held.amend(_manifest_in(held.path, cache_dir))


def _manifest_in(path: Path, cache_dir: str | None) -> Manifest:
    try:
        with open_archive(path) as archive:
            return archive.manifest
    except ArchiveError as refusal:
        from servekit_archiver.cache.foreign import unpack_foreign

        cache = load_settings({"cache_dir": cache_dir}).cache_dir
        return unpack_foreign(path, Path(cache) if cache else default_cache_dir(), refusal).manifest


@contextmanager
def refusing() -> Iterator[None]:
    """Turn what the archiver refuses into the end of a command: one line for each problem."""
    try:
        yield
    except ManifestError as error:
        lines = (f"{error.source}: {problem}" for problem in error.problems)
        raise StartupError("\n".join(lines)) from error
    except ArchiveError as error:
        raise StartupError(str(error)) from error
