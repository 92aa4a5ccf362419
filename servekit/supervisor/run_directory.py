# SPDX-License-Identifier: Apache-2.0
"""The private directory that holds the sockets; a lock tells a live one from a leftover."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from servekit.errors import StartupError

__all__ = ["RunDirectory"]

PREFIX = "servekit-run-"
LOCK = "lock"
MAX_SOCKET_PATH = 107  # sun_path of unix(7), without its final NUL
LONGEST_NAME = 20


class RunDirectory:
    """A 0700 directory that goes when we go."""

    def __init__(self, parent: str = "") -> None:
        """Sweep what dead servers left in *parent* (default: ``TMPDIR``), then make our own.

        :raises StartupError: it cannot be made, or its path is too long for a socket.
        """
        place = Path(parent or tempfile.gettempdir()).absolute()
        try:
            _sweep(place)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            self._lock = _lock(self.path / LOCK, os.O_CREAT)
        except OSError as error:
            raise StartupError(f"run_dir: {place}: {error.strerror}") from error
        if len(os.fsencode(self.path)) + LONGEST_NAME > MAX_SOCKET_PATH:
            self.remove()
            raise StartupError(f"run_dir: {place}: too long for the path of a socket")

    def remove(self) -> None:
        """Delete it with all that it holds."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(parent: Path) -> None:
    """Delete our own directories whose supervisor is gone: its lock went with it."""
    for path in parent.glob(f"{PREFIX}*"):
        try:
            if path.lstat().st_uid != os.getuid() or path.is_symlink():
                continue
            lock = _lock(path / LOCK)
        except OSError:  # alive, or just being made
            continue
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _lock(path: Path, flags: int = 0) -> int:
    """Open and lock *path*; a ``BlockingIOError`` means that somebody else holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd
