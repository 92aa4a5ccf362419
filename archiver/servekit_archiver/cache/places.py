# SPDX-License-Identifier: Apache-2.0
"""Where unpacked archives lie, and how long."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.manifest import Manifest

__all__ = ["UNUSED_S", "Unpacked", "default_cache_dir", "own_folder"]

UNUSED_S: Final = 30 * 86_400  #: content that was neither used nor held for this long is removed


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An archive's content on disk."""

    directory: Path  #: shared by all who unpack the same content; never write into it
    manifest: Manifest
    digest: str


def default_cache_dir() -> Path:
    """Return ``$SERVEKIT_CACHE_DIR``, ``$XDG_CACHE_HOME/servekit`` or ``~/.cache/servekit``."""
    if own := os.environ.get("SERVEKIT_CACHE_DIR"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if Path(shared).is_absolute():  # the XDG specification: a relative one is to be ignored
        return Path(shared) / "servekit"
    try:
        return Path.home() / ".cache" / "servekit"
    except RuntimeError:
        raise ArchiveError("no home directory for the cache; set SERVEKIT_CACHE_DIR") from None


def own_folder(path: Path) -> Path:
    """Make *path* private: content that others can write to must not be served.

    :raises ArchiveError: it cannot be made, or others may write to it.
    """
    with refuse_os_errors(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        stat = path.lstat()
    if stat.st_uid != os.geteuid():
        raise ArchiveError(f"{path}: belongs to user {stat.st_uid}, not to {os.geteuid()}")
    if stat.st_mode & 0o022:
        raise ArchiveError(f"{path}: others may write to it (mode {stat.st_mode & 0o777:#o})")
    return path
