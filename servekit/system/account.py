# SPDX-License-Identifier: Apache-2.0
"""A home and a name for users that have none, as a container platform chooses them by number."""

import os
import pwd
import stat
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

__all__ = ["complete_account"]


def complete_account(environment: MutableMapping[str, str]) -> None:
    """Set ``HOME``, ``USER`` and ``LOGNAME`` where the user of this process has no account.

    Libraries fail that ask for the home or the name of such a user. The home is a private directory
    in TMPDIR, if that of *environment* is missing or cannot be written to.
    """
    user = os.geteuid()
    with suppress(KeyError):
        pwd.getpwuid(user)
        return
    for name in ("USER", "LOGNAME"):
        environment.setdefault(name, str(user))
    if not os.access(environment.get("HOME", ""), os.W_OK):
        with suppress(OSError):
            environment["HOME"] = str(_private_directory(user))


def _private_directory(user: int) -> Path:
    """Return a directory that only *user* can enter.

    :raises OSError: it belongs to another one, or cannot be made.
    """
    import tempfile  # few users have no account

    place = Path(tempfile.gettempdir(), f"servekit-home-{user}")
    place.mkdir(mode=0o700, exist_ok=True)
    status = place.lstat()
    if status.st_uid != user or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022:
        raise PermissionError(f"{place}: belongs to another user")
    return place
