# SPDX-License-Identifier: Apache-2.0
"""Makes the process a worker: its signals, its standard streams, its forks."""

import faulthandler
import io
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from servekit.errors import StartupError
from servekit.ipc import arena

__all__ = [
    "BOOT_FAILED",
    "LEFT",
    "LEFT_BY_SERVICE",
    "become_worker",
    "leave",
    "limit",
    "on_fork",
    "own_socket",
]

LEFT = 0  #: told to stop, or the supervisor is gone
LEFT_BY_SERVICE = 1  #: the service raised SystemExit: a new worker is wanted
BOOT_FAILED = 3  #: ``BootFailed`` was sent
IGNORED = signal.SIGINT, signal.SIGTERM


def become_worker() -> None:
    """Leave the end to the supervisor, and the standard streams to the service."""
    faulthandler.enable()
    for number in IGNORED:  # a function, not SIG_IGN, which programs that it starts would inherit
        signal.signal(number, lambda _number, _frame: None)
    restore_signals_in_children()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")


def own_socket(descriptor: int) -> socket.socket:
    """Take over a descriptor, out of reach of the programs that the service starts."""
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    sock.setblocking(True)
    return sock


def limit(memory_bytes: int, files: int) -> None:
    """Bound what the service, and what it starts, may take; 0 sets no limit.

    :raises StartupError: *memory_bytes* are fewer than what we have already.
    """
    if memory_bytes:
        limit_addresses(memory_bytes)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files and (hard == resource.RLIM_INFINITY or files < hard):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def limit_addresses(most: int) -> None:
    """Bound the address space; memory shared with front-ends comes on top, as it is mapped."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    used = pages * resource.getpagesize()
    if used > most:
        from servekit.settings.values import size_text  # few workers need the settings

        needs = f"the {-(-used >> 20)} MiB that a worker has before its service is loaded"
        raise StartupError(f"worker_memory: {size_text(most)} is less than {needs}")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        arena.on_map = move_limit


def move_limit(size: int) -> None:
    """Let *size* bytes more be mapped, or fewer if it is negative."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:  # the service lifted it
        return
    moved = max(0, soft + size)
    if hard != resource.RLIM_INFINITY:
        moved = min(moved, hard)
    resource.setrlimit(resource.RLIMIT_AS, (moved, hard))


def on_fork(close: Callable[[], None]) -> None:
    """Call *close* in every child that the service forks, so that it cannot speak for us."""
    os.register_at_fork(after_in_child=close)


def restore_signals_in_children() -> None:
    """Let what the service forks be ended by signals, from its first moment on.

    They are held back around a fork: one that came before the child has its default
    dispositions would be lost, and ``multiprocessing.Pool.terminate`` wait for ever.
    """

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)

    def reset() -> None:
        for number in IGNORED:
            signal.signal(number, signal.SIG_DFL)
        unblock()

    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED) and None,
        after_in_parent=unblock,
        after_in_child=reset,
    )


def leave(status: int) -> NoReturn:
    """End the process; threads that the service left behind do not keep it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the service closed it
    os._exit(status)
