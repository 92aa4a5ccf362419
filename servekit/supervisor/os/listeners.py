# SPDX-License-Identifier: Apache-2.0
"""Bound sockets. The supervisor owns them all, so they outlive the processes that accept."""

import errno
import os
import socket
import struct
from pathlib import Path

from servekit.errors import StartupError

__all__ = ["BACKLOG", "bind_tcp", "bind_unix", "is_ours", "url_of"]

BACKLOG = 4096
UNIX_BACKLOG = 64  # one connection for each front-end process
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


def is_ours(peer: socket.socket) -> bool:
    """Return whether the process behind *peer* runs as the same user."""
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    uid: int = CREDENTIALS.unpack(raw)[1]
    return uid == os.getuid()


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """Return what to type into a browser; a wildcard address becomes the loopback one."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
