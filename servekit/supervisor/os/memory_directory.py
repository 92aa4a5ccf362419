# SPDX-License-Identifier: Apache-2.0
"""Directories in memory, for what must not reach a disk."""

import os
from pathlib import Path
from typing import Final

from servekit.errors import StartupError
from servekit.supervisor.os.user import User

__all__ = ["MEMORY", "admit", "make_private", "memory_twin"]

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - in memory, and what is made in it is private
IN_MEMORY: Final = ("tmpfs", "ramfs")
ENTERED: Final = 0o711  #: by name, not listed
ENTERED_BY_GROUP: Final = 0o710


def memory_twin(run_dir: Path) -> Path:
    """Return the directory in memory that lives as long as *run_dir*. It may not exist."""
    return MEMORY / run_dir.name


def make_private(directory: Path) -> None:
    """Make *directory*, which is new, and its parent, for our user alone. Runs in: prepare child.

    :raises StartupError: the parent is another user's, or they would not be in memory.
    :raises OSError: they cannot be made.
    """
    parent = directory.parent
    parent.mkdir(mode=0o700, exist_ok=True)
    status = parent.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise StartupError(f"{parent}: belongs to another user, or others may write to it")
    if (kind := _file_system(status.st_dev)) not in IN_MEMORY:
        raise StartupError(f"{parent}: is on a file system of type {kind}, not in memory")
    directory.mkdir(mode=0o700)


def admit(user: User, directory: Path) -> None:
    """Let *user* enter a directory of ``make_private``, but not other users."""
    directory.parent.chmod(ENTERED)
    os.chown(directory, os.geteuid(), user.gid)
    directory.chmod(ENTERED_BY_GROUP)


def _file_system(device: int) -> str:
    """Return the type of the mounted file system with the number *device* (``proc(5)``)."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        mount, _, source = line.partition(" - ")
        if mount.split()[2] == number:
            return source.split()[0]
    return "unknown"
