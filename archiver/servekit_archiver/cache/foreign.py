# SPDX-License-Identifier: Apache-2.0
"""Archives of other formats in the cache: a plugin unpacks them, once for each content.

They lie where our own archives do, under the SHA-256 of the archive file.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from filecmp import cmp
from pathlib import Path
from typing import Final

from servekit_archiver.cache.places import UNUSED_S, Unpacked, own_folder
from servekit_archiver.cache.stamps import (
    find_verified,
    holds_content,
    remember_content,
    remember_title,
    remember_verified,
)
from servekit_archiver.directory.model_directory import load_directory
from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.progress import Progress
from servekit_archiver.zip.source import Source

__all__ = ["unpack_foreign"]

SUFFIXES: Final = re.compile(r"(\.tar)?\.[A-Za-z0-9]{1,8}$")
ATTEMPTS: Final = 3  #: to put the content in place, while others may do the same


def unpack_foreign(
    path: Path, cache: Path, refusal: ArchiveError, progress: Progress | None = None
) -> Unpacked:
    """Return the content of a file that is not an archive of ours, and what plugins say of it.

    :param refusal: why our own reader refused the file.
    :raises ArchiveError: *refusal*, if no plugin knows such files; or what a plugin refuses; or the
        file is replaced meanwhile.
    """
    models, verified = own_folder(cache / "models"), own_folder(cache / "verified")
    identity = _identity(path)
    digest = find_verified(verified, identity) or _digest(path)
    directory = models / digest

    def fill(content: Path) -> None:
        _ask_plugins(path, refusal, progress, content)
        if _identity(path) != identity:  # else the content of another file would have this digest
            raise ArchiveError(f"{path}: has changed while it was unpacked")

    if not holds_content(verified, digest, directory):
        _install(directory, verified, fill)
    manifest = load_directory(directory, name=SUFFIXES.sub("", path.name))
    remember_verified(verified, identity, digest)
    remember_title(verified, digest, f"{manifest.name}/{manifest.version}")
    return Unpacked(directory, manifest, digest)


def _identity(path: Path) -> str:
    with Source(path) as source:
        return source.identity()


def _digest(path: Path) -> str:
    with refuse_os_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _install(directory: Path, verified: Path, fill: Callable[[Path], None]) -> None:
    from servekit_archiver.cache.holding import remove_unused
    from servekit_archiver.scratch import remove_abandoned, scratch_directory

    models = directory.parent
    with refuse_os_errors(models, names_file=False):
        remove_abandoned(models)
        remove_unused(models.parent, UNUSED_S)
        with scratch_directory(models) as scratch:
            content = scratch / directory.name
            content.mkdir(mode=0o700)
            fill(content)
            names = _names(content)
            for attempt in range(ATTEMPTS):
                try:
                    content.rename(directory)
                except OSError:
                    if not _is_same(content, directory, names):
                        directory.rename(scratch / f"broken-{attempt}")
                        continue  # else another process was faster
                remember_content(verified, directory, names)
                return
    raise ArchiveError(f"{directory}: cannot be replaced")


def _is_same(content: Path, directory: Path, names: Iterable[str]) -> bool:
    """Whether the files *names* are the same in both directories."""
    try:
        return all(cmp(content / name, directory / name, shallow=False) for name in names)
    except OSError:
        return False


def _ask_plugins(
    path: Path, refusal: ArchiveError, progress: Progress | None, content: Path
) -> None:
    """Let a plugin unpack *path* into *content*.

    :raises ArchiveError: *refusal*, or what the plugin refuses.
    """
    from servekit_archiver.plugins import HookManager  # few archives are of other formats

    manager = HookManager()
    manager.discover()
    try:
        is_known = manager.hook.unpack_archive(
            path=path, directory=content, progress=progress or _ignore
        )
    except (ArchiveError, OSError):
        raise
    except Exception as error:
        raise ArchiveError(f"{path}: {type(error).__name__}: {error}") from error
    if not is_known:
        raise refusal


def _names(content: Path) -> list[str]:
    """Return the names of the files that a plugin has written.

    :raises ArchiveError: one of them is not a regular file.
    """
    found = []
    for place, _, files in os.walk(content):
        for path in (Path(place, name) for name in files):
            if path.is_symlink() or not path.is_file():
                raise ArchiveError(f"{path.relative_to(content)}: is not a regular file")
            found.append(path.relative_to(content).as_posix())
    return found


def _ignore(_done: int, _total: int) -> None:
    """Stand for a caller that does not ask how far the work is."""
