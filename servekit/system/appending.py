# SPDX-License-Identifier: Apache-2.0
"""Opens log files whose path no other user can redirect."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

__all__ = ["open_directory", "open_own", "open_to_append", "reopen"]

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
    place, name = _followed_to(path, is_directory=False)
    try:
        if name.startswith(PROC):  # these links of the kernel cannot be followed as paths
            return os.open(name, APPEND)
        return open_own(place, name)
    finally:
        os.close(place)


def open_directory(path: str) -> int:
    """Return a descriptor of the directory *path*, for the argument ``dir_fd``.

    All symbolic links on the path must belong to root or to this user.

    :raises OSError: it cannot be opened, or is refused.
    """
    place, _ = _followed_to(path, is_directory=True)
    try:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)


def open_own(place: int, name: str) -> int:
    """Return a descriptor of the file *name* in the directory *place*, created if need be.

    :raises OSError: it cannot be opened; it is a link, or belongs to another user.
    """
    found = os.open(name, APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o640, dir_fd=place)
    owner = os.fstat(found).st_uid
    if owner not in (0, os.geteuid(), os.fstat(place).st_uid):
        os.close(found)
        raise OSError(errno.EPERM, f"it belongs to user {owner}")
    return found


def _followed_to(path: str, *, is_directory: bool) -> tuple[int, str]:
    """Return a descriptor of the last directory of *path*, and the name that is left.

    That is "" for a directory, or a path below ``/proc``.
    """
    names, links = _names(path), 0
    place = os.open("/", LOOK)
    try:
        while names and (is_directory or len(names) > 1 or _is_link(place, names[0])):
            name = names.pop(0)
            found = os.open(name, LOOK, dir_fd=place)
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                os.close(place)
                place = found
                continue
            links += 1
            target = _followed(found, links)
            if target.startswith(PROC) and not is_directory:
                return place, target
            if target.startswith("/"):
                os.close(place)
                place = os.open("/", LOOK)
            names = _names(target) + names
    except OSError:
        os.close(place)
        raise
    return place, names[0] if names else ""


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


def _followed(link: int, links: int) -> str:
    """Return the target of *link*, and close it; *links* counts those of the path."""
    try:
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        owner = os.fstat(link).st_uid
        if owner not in (0, os.geteuid()):
            raise OSError(errno.EPERM, f"a link of user {owner} is on the way")
        return os.readlink("", dir_fd=link)
    finally:
        os.close(link)
