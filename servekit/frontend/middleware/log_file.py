# SPDX-License-Identifier: Apache-2.0
"""Opens log files whose path no other user can redirect."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

__all__ = ["open_to_append", "reopen"]

APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_LINKS: Final = 40  # as the kernel
PROC: Final = "/proc"


def open_to_append(path: str) -> int:
    """Return a descriptor of the file *path*, which is created if it does not exist.

    All symbolic links on the path must belong to root or to this user, and the file to root, to
    this user or to the owner of its directory. A pipe must have a reader.

    :raises OSError: the file cannot be opened, or is refused.
    """
    names, links = _names(path), 0
    place = os.open("/", LOOK)
    try:
        while len(names) > 1 or _is_link(place, names[0]):
            name = names.pop(0)
            found = os.open(name, LOOK, dir_fd=place)
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                os.close(place)
                place = found
                continue
            target = _followed(found)
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if target.startswith(PROC):  # these links of the kernel cannot be followed as paths
                return os.open(target, APPEND)
            if target.startswith("/"):
                os.close(place)
                place = os.open("/", LOOK)
            names = _names(target) + names
        return _open_own(place, names[0])
    finally:
        os.close(place)


def reopen(descriptor: int) -> int:
    """Return another descriptor of the same file, which is non-blocking unless it is a socket."""
    try:
        return os.open(f"/proc/self/fd/{descriptor}", APPEND)
    except OSError:  # a socket, or a terminal of another user
        return os.dup(descriptor)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")] or ["."]


def _is_link(place: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _followed(link: int) -> str:
    """Return the target of *link*, and close it."""
    try:
        owner = os.fstat(link).st_uid
        if owner not in (0, os.geteuid()):
            raise OSError(errno.EPERM, f"a link of user {owner} is on the way")
        return os.readlink("", dir_fd=link)
    finally:
        os.close(link)


def _open_own(place: int, name: str) -> int:
    found = os.open(name, APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o640, dir_fd=place)
    owner = os.fstat(found).st_uid
    if owner not in (0, os.geteuid(), os.fstat(place).st_uid):
        os.close(found)
        raise OSError(errno.EPERM, f"it belongs to user {owner}")
    return found
