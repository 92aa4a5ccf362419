# SPDX-License-Identifier: Apache-2.0
"""The user that workers run as, and the files that user must be able to read."""

import os
import pwd
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from servekit.errors import StartupError

__all__ = [
    "ENTERED",
    "SYSTEM_CACHE",
    "User",
    "cache_for",
    "find_user",
    "open_entry",
    "require_readable",
    "user_of_model",
]

SYSTEM_CACHE = Path(
    "/var/cache/servekit"
)  #: root's own is below a directory that root alone enters
ENTERED = 0o711  #: by name, not listed
READ = 0o755
RANGE = re.compile(r"(\d+)-(\d+)", re.ASCII)
NO_ID = 2**32 - 1  #: (uid_t) -1, which is nobody's number


@dataclass(frozen=True, slots=True)
class User:
    """An account of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


def user_of_model(worker_user: str, number: int, models: int) -> str:
    """Return the user of model *number*: each model has a different one of a range of numbers.

    :raises StartupError: the range is too small for this number of *models*.
    """
    found = RANGE.fullmatch(worker_user)
    if found is None:
        return worker_user
    first, last = int(found[1]), int(found[2])
    if not 0 < first <= last < NO_ID:
        raise StartupError(f"worker_user: {worker_user} is not a range of user numbers above 0")
    if last - first + 1 < models:
        raise StartupError(f"worker_user: {worker_user} is too small for {models} models")
    return str(first + number)


@lru_cache(maxsize=256)
def find_user(name: str) -> User | None:
    """Return the user *name*, or ``None`` for "". The result is cached, since a lookup may block.

    A number without an account is valid: its group has the same number, and it has no home.

    :raises StartupError: there is no such user, or we may not start its processes.
    """
    if not name:
        return None
    number = int(name) if name.isascii() and name.isdecimal() else None
    try:
        entry = pwd.getpwnam(name) if number is None else pwd.getpwuid(number)
    except (KeyError, OverflowError) as error:
        if number is None or not 0 < number < NO_ID:
            raise StartupError(f"worker_user: unknown user {name!r} on this machine") from error
        found = User(name, number, number, (), "/nonexistent")
    else:
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        found = User(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)
    if os.geteuid() != 0:
        raise StartupError("worker_user: only root can start processes of another user")
    return found


def cache_for(user: User, cache_dir: str) -> Path:
    """Return a cache that *user* can read, we can write and no other user can enter."""
    cache = (Path(cache_dir) if cache_dir else SYSTEM_CACHE) / f"user-{user.uid}"
    os.umask(0o022)  # this process is short-lived, and makes environments that *user* can read
    cache.mkdir(parents=True, exist_ok=True)
    os.chown(cache, os.geteuid(), user.gid)
    cache.chmod(0o710)
    return cache


def open_entry(entry: Path) -> None:
    """Let every user who can enter its cache read the unpacked archive *entry*."""
    entry.parent.chmod(ENTERED)
    for place, _, _ in os.walk(entry):
        Path(place).chmod(READ)


def require_readable(user: User, directory: Path, python: str) -> None:
    """Check that a worker of *user* can start and read *directory*.

    :raises StartupError: names what it cannot read.
    """
    needs = {directory: os.R_OK | os.X_OK, Path(python): os.X_OK, Path(__file__): os.R_OK}
    groups = os.getgroups()
    os.setgroups(user.groups)
    os.setegid(user.gid)
    os.seteuid(user.uid)
    lacking = [
        path for path, mode in needs.items() if not os.access(path, mode, effective_ids=True)
    ]
    os.seteuid(0)
    os.setegid(0)
    os.setgroups(groups)
    if lacking:
        raise StartupError(f"worker_user: {user.name} cannot read {lacking[0]}")
