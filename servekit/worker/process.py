# SPDX-License-Identifier: Apache-2.0
"""Makes the process a worker: its signals, its standard streams, its forks."""

import faulthandler
import io
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

__all__ = ["become_worker", "leave", "limit", "on_fork"]

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


def limit(memory_bytes: int, files: int) -> None:
    """Bound what the service, and what it starts, may take; 0 sets no limit."""
    for kind, most in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_NOFILE, files)):
        hard = resource.getrlimit(kind)[1]
        if most and (hard == resource.RLIM_INFINITY or most < hard):
            resource.setrlimit(kind, (most, most))


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
