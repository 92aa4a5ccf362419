# SPDX-License-Identifier: Apache-2.0
"""Sets up the worker process: signals, standard streams, limits, forks; and its exit statuses."""

import faulthandler
import io
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from servekit.errors import StartupError
from servekit.ipc import arena

__all__ = [
    "BOOT_FAILED",
    "LEFT",
    "LEFT_BY_SERVICE",
    "become_worker",
    "forbid_core_dumps",
    "leave",
    "limit",
    "on_fork",
    "own_socket",
    "pin",
    "take_stdout",
]

LEFT = 0  #: told to stop, or the supervisor is gone
LEFT_BY_SERVICE = 1  #: the service raised SystemExit, and the supervisor starts a new worker
BOOT_FAILED = 3  #: ``BootFailed`` was sent
IGNORED = signal.SIGINT, signal.SIGTERM


def become_worker() -> None:
    """Ignore the signals that end the server, and make the standard streams safe to print to."""
    faulthandler.enable()
    for number in IGNORED:  # a function, as SIG_IGN would be inherited by programs it starts
        signal.signal(number, lambda _number, _frame: None)
    restore_signals_in_children()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")


def own_socket(descriptor: int) -> socket.socket:
    """Take over a descriptor. Programs that the service starts do not inherit it."""
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    sock.setblocking(True)
    return sock


def take_stdout() -> int:
    """Return a descriptor of stdout. What is printed from now on goes to stderr."""
    stdout = os.dup(1)
    os.dup2(2, 1)
    return stdout


def limit(memory_bytes: int, files: int) -> None:
    """Limit what the service, and what it starts, may use; 0 sets no limit.

    :raises StartupError: the process uses more than *memory_bytes* already.
    """
    if memory_bytes:
        limit_addresses(memory_bytes)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files and (hard == resource.RLIM_INFINITY or files < hard):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def pin(cpus: Sequence[int]) -> None:
    """Run on *cpus* alone, with every thread that starts from now on; none of them: anywhere.

    :raises StartupError: the process may not use them.
    """
    if not cpus:
        return
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise StartupError(f"cpus: cannot use {','.join(map(str, cpus))}: {error}") from None


def forbid_core_dumps() -> None:
    """Forbid the kernel to write a core dump of this process.

    One byte, and not none: that is the limit that a program which gets core dumps by a pipe is
    held to as well (``do_coredump`` of Linux).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def limit_addresses(most: int) -> None:
    """Limit the address space. Memory shared with front-ends does not count: it moves the limit."""
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
    """Allow *size* more bytes to be mapped, or fewer if it is negative."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:  # the service lifted it
        return
    moved = max(0, soft + size)
    if hard != resource.RLIM_INFINITY:
        moved = min(moved, hard)
    resource.setrlimit(resource.RLIMIT_AS, (moved, hard))


def on_fork(close: Callable[[], None]) -> None:
    """Call *close* in every child that the service forks, so that it cannot answer for us."""
    os.register_at_fork(after_in_child=close)


def restore_signals_in_children() -> None:
    """Let signals end what the service forks, from the first moment on.

    They are blocked around a fork. Otherwise one that arrives before the child has restored its
    default dispositions would be lost, and ``multiprocessing.Pool.terminate`` would hang.
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
    """End the process, even if threads that the service started still run."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the service has closed it
    os._exit(status)
