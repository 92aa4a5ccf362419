# SPDX-License-Identifier: Apache-2.0
"""The private directory with the sockets; a lock tells a live one from a leftover."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from servekit.errors import StartupError
from servekit.supervisor.os.memory_directory import memory_twin

__all__ = [
    "CLIENT_SOCKET",
    "CONTROL_SOCKET",
    "LONGEST_NAME",
    "MANAGE_SOCKET",
    "MAX_SOCKET_PATH",
    "OBSERVER_SOCKET",
    "PREFIX",
    "RunDirectory",
    "remove_with_twin",
    "running",
]

CLIENT_SOCKET = "clients.sock"  #: predictions, for processes of plugins
CONTROL_SOCKET = "control.sock"  #: front-ends connect to it
MANAGE_SOCKET = "manage.sock"  #: management, for our own user
OBSERVER_SOCKET = "observer.sock"  #: supervisor and front-ends send events to it

PREFIX = "servekit-run-"
UNLOCKED = "servekit-new-"  #: begins the name of a directory that is not locked yet
UNLOCKED_S = 60.0  #: after which such a directory is removed
LOCK = "lock"  #: holds the pid of the supervisor
MAX_SOCKET_PATH = 107  # sun_path of unix(7), without its final NUL
LONGEST_NAME = 20


class RunDirectory:
    """A directory with mode 0700 that is removed when the server ends."""

    def __init__(self, parent: str = "") -> None:
        """Remove those of dead servers in *parent* (default: ``TMPDIR``), then make ours.

        :raises StartupError: it cannot be made, or its path is too long for a socket.
        """
        place = _place(parent)
        try:
            _sweep(place)
            self.path = Path(tempfile.mkdtemp(prefix=UNLOCKED, dir=place))
        except OSError as error:
            raise StartupError(f"run_dir: {place}: {error.strerror}") from error
        self._lock = -1
        with self.beginning():
            self._lock = _lock(self.path / LOCK, os.O_CREAT)
            os.write(self._lock, str(os.getpid()).encode())
            # others look for this name: they would take a directory without lock for a dead server
            self.path = self.path.rename(place / self.path.name.replace(UNLOCKED, PREFIX, 1))
        if len(os.fsencode(self.path)) + LONGEST_NAME > MAX_SOCKET_PATH:
            self.remove()
            raise StartupError(f"run_dir: {place}: too long for the path of a socket")

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Put files into it; it is removed if that is not possible.

        :raises StartupError: says why it is not possible.
        """
        try:
            yield
        except OSError as error:
            self.remove()
            raise StartupError(f"run_dir: {self.path.parent}: {error.strerror}") from error

    def remove(self) -> None:
        """Delete it with its content, and its twin in memory."""
        remove_with_twin(self.path)
        if self._lock >= 0:
            os.close(self._lock)


def remove_with_twin(path: Path) -> None:
    """Delete a run directory, and what belongs to it in memory."""
    shutil.rmtree(memory_twin(path), ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)


def running(parent: str = "") -> dict[int, Path]:
    """Return the run directories of our live servers below *parent*, by pid."""
    found = {}
    for path in _own(_place(parent)):
        try:
            os.close(_lock(path / LOCK))
        except BlockingIOError:  # its server runs
            with suppress(OSError, ValueError):
                found[int((path / LOCK).read_text(encoding="ascii"))] = path
        except OSError:
            continue
    return found


def _place(parent: str) -> Path:
    """Return where run directories are.

    :raises StartupError: nothing can be written to, as in a container without a volume at ``/tmp``.
    """
    try:
        return Path(parent or tempfile.gettempdir()).absolute()
    except FileNotFoundError as error:
        raise StartupError(
            "run_dir: no directory for temporary files can be written to: mount one at /tmp, or"
            " name one in TMPDIR"
        ) from error


def _own(place: Path, prefix: str = PREFIX) -> Iterator[Path]:
    """Yield the run directories in *place* that are ours."""
    for path in place.glob(f"{prefix}*"):
        with suppress(OSError):
            if path.lstat().st_uid == os.getuid() and not path.is_symlink():
                yield path


def _sweep(place: Path) -> None:
    """Delete directories of our user whose supervisor has ended, which has released the lock."""
    for path in _own(place):
        try:
            lock = _lock(path / LOCK)
        except OSError:  # it runs, or is about to
            continue
        remove_with_twin(path)
        os.close(lock)
    for path in _own(place, UNLOCKED):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > UNLOCKED_S:
                shutil.rmtree(path, ignore_errors=True)


def _lock(path: Path, flags: int = 0) -> int:
    """Open and lock *path*; a ``BlockingIOError`` means that another process holds the lock."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd
