# SPDX-License-Identifier: Apache-2.0
"""Locks on unpacked content: while one is held, the content is in use and is not removed."""

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final

from servekit_archiver.scratch import scratch_directory

__all__ = ["DIGEST", "discard", "hold", "is_held", "last_used", "remove_unused"]

DIGEST: Final = re.compile(r"[0-9a-f]{64}")  #: the names of unpacked content


def hold(directory: Path) -> int | None:
    """Keep the unpacked content in *directory* as long as the returned descriptor is open.

    ``None``: it has been removed, or is being removed; unpack it again.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), directory.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def is_held(directory: Path) -> bool:
    """Say whether somebody holds *directory*, in this process or another."""
    try:
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def discard(directory: Path) -> None:
    """Remove unpacked content unless somebody holds it, in this process or another."""
    with suppress(OSError):  # it is gone, held, or another user's
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with scratch_directory(directory.parent) as scratch:
                directory.rename(scratch / directory.name)
                (directory.parent.parent / "verified" / directory.name).unlink(missing_ok=True)
        finally:
            os.close(lock)


def remove_unused(cache: Path, unused_s: float) -> None:
    """Remove unpacked content that nobody holds and that was last used *unused_s* seconds ago."""
    for directory in (cache / "models").iterdir():
        if DIGEST.fullmatch(directory.name):
            with suppress(OSError):
                if last_used(directory) < time() - unused_s:
                    discard(directory)


def last_used(directory: Path) -> float:
    """Return when the unpacked content in *directory* was used last, in seconds since the epoch."""
    verified = directory.parent.parent / "verified" / directory.name
    return max(_changed(verified), _changed(directory))


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0
