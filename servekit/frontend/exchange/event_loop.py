# SPDX-License-Identifier: Apache-2.0
"""The event loop of a front-end: gevent's, as far as it is used here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EventLoop", "Watcher"]


class Watcher(Protocol):
    """Calls a function when a socket is ready, or when a time has passed."""

    def start(self, callback: Callable[..., Any], *args: Any) -> None:
        """Call *callback* with *args* each time, until ``stop``."""

    def stop(self) -> None:
        """Make no more calls; ``start`` may follow."""

    def close(self) -> None:
        """Make no more calls, ever."""


class EventLoop(Protocol):
    """Runs callbacks, one at a time."""

    def io(self, fd: int, events: int) -> Watcher:
        """Return a watcher of a descriptor; *events* is 1 to read, 2 to write."""

    def timer(self, after: float, repeat: float = 0.0) -> Watcher:
        """Return a watcher that calls after *after* seconds, and then every *repeat* seconds."""

    def idle(self) -> Watcher:
        """Return a watcher that calls in each turn without other calls; the loop does not sleep."""

    def run_callback(self, func: Callable[..., Any], *args: Any) -> object:
        """Call *func* at the end of this turn of the loop, after all sockets that were ready."""
