# SPDX-License-Identifier: Apache-2.0
"""A private directory to unpack into, gone again unless it was renamed away."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["remove_abandoned", "scratch_directory"]

PREFIX: Final = ".unpacking-"


@contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """Make a directory in *parent* that only we may enter; remove it at the end, come what may.

    It is locked while we use it, so that ``remove_abandoned`` in another process can tell
    it from one whose process was killed.
    """
    path, lock = _make_locked(parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _make_locked(parent: Path) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))  # mode 0700
        # until we hold the lock, another process may take it for abandoned: then once more
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():
                return path, lock
            os.close(lock)


def remove_abandoned(parent: Path) -> None:
    """Remove the scratch directories in *parent* whose processes are gone."""
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # gone, in use, or somebody else's
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
