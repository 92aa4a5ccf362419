# SPDX-License-Identifier: Apache-2.0
"""Bound sockets. The supervisor owns them all, so they outlive the processes that accept."""

import errno
import os
import socket
import stat
import struct
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

from servekit.errors import StartupError

__all__ = [
    "BACKLOG",
    "SocketFile",
    "bind_tcp",
    "bind_unix",
    "is_ours",
    "is_tcp",
    "passed_sockets",
    "url_of",
]

BACKLOG = 4096
UNIX_BACKLOG = 64  # one connection for each front-end process
FIRST_PASSED = 3  #: SD_LISTEN_FDS_START of sd_listen_fds(3)
CREDENTIALS = struct.Struct("iII")  # pid, uid, gid: struct ucred of unix(7)


def bind_tcp(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    :raises StartupError: the address is not ours, or is taken.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", "") or "not a valid host name"
        raise StartupError(f"host: {host!r} is not an address: {reason}") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise StartupError(_bind_failure(host, port, error)) from error
    return listener


def _bind_failure(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"host: {host!r} is not an address of this machine"
    return f"cannot listen on {host}:{port}: {error.strerror}"


def bind_unix(path: Path, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """Return a listening socket of *kind* at *path*, which must be free.

    :raises OSError: the disk is full, or no descriptor is left.
    """
    listener = socket.socket(socket.AF_UNIX, kind)
    try:
        listener.bind(os.fspath(path))
        listener.listen(UNIX_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


class SocketFile:
    """The path of a listening socket, which is removed when the server ends."""

    def __init__(self, path: str, mode: int) -> None:
        """Listen at *path*, with these permissions. A socket that nobody listens at is replaced.

        :raises StartupError: somebody listens there, it is another file, or it cannot be made.
        """
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self._remove_stale()
            self.socket.bind(path)
            os.chmod(path, mode)  # noqa: PTH101 - beside the other calls for paths
            self._identity = self._found()
            self.socket.listen(BACKLOG)  # only now somebody can connect
        except OSError as error:
            self.socket.close()
            reason = error.strerror or "the path of a socket has 107 bytes at most"
            raise StartupError(f"bind: unix:{path}: {reason}") from error

    def remove(self) -> None:
        """Remove the file, unless another server has replaced it."""
        with suppress(OSError):
            if self._found() == self._identity:
                os.unlink(self.path)  # noqa: PTH108

    def _found(self) -> tuple[int, int, int]:
        found = os.lstat(self.path)
        return found.st_dev, found.st_ino, found.st_mtime_ns

    def _remove_stale(self) -> None:
        try:
            if not stat.S_ISSOCK(os.lstat(self.path).st_mode):
                raise FileExistsError(errno.EEXIST, "is another file")
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(1.0)
                probe.connect(self.path)
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            os.unlink(self.path)  # noqa: PTH108
            return
        raise OSError(errno.EADDRINUSE, "is in use")


def passed_sockets(environment: MutableMapping[str, str]) -> list[socket.socket]:
    """Return the listening sockets that systemd has opened for us (``sd_listen_fds(3)``).

    Their variables are removed, since they are not meant for our children.

    :raises StartupError: one is not a listening stream socket.
    """
    names = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
    pid, count, _ = (environment.pop(name, "") for name in names)
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    return [_passed(FIRST_PASSED + number) for number in range(int(count))]


def _passed(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        found = socket.socket(fileno=descriptor)
        is_usable = found.type == socket.SOCK_STREAM and found.getsockopt(
            socket.SOL_SOCKET, socket.SO_ACCEPTCONN
        )
    except OSError as error:
        raise StartupError(f"bind: systemd: descriptor {descriptor}: {error.strerror}") from error
    if not is_usable:
        raise StartupError(
            f"bind: systemd: descriptor {descriptor} is not a listening stream socket"
        )
    return found


def is_tcp(listener: socket.socket) -> bool:
    """Return whether other machines may reach it."""
    return listener.family in (socket.AF_INET, socket.AF_INET6)


def is_ours(peer: socket.socket) -> bool:
    """Return whether the process behind *peer* runs as the same user."""
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    uid: int = CREDENTIALS.unpack(raw)[1]
    return uid == os.getuid()


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """Return what to type into a browser; a wildcard address becomes the loopback one.

    A Unix socket has no URL: it is ``unix:/run/servekit.sock``.
    """
    if not is_tcp(listener):
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
