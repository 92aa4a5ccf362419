# SPDX-License-Identifier: Apache-2.0
"""Tells systemd what the server does: the protocol of ``sd_notify(3)``."""

import os
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from time import CLOCK_MONOTONIC, clock_gettime_ns

from servekit.extension.events import LifeEvent, ServerStarted, ServerStopping
from servekit.supervisor.reporting.journal import Notice

__all__ = ["Systemd"]

POLL_S = 0.1  #: how late the end of a reload may be noticed
CallLater = Callable[[float, Callable[[], object]], object]


class Systemd:
    """An event sink; it does nothing where ``NOTIFY_SOCKET`` is not set."""

    def __init__(
        self,
        environment: MutableMapping[str, str],
        call_later: CallLater,
        is_settled: Callable[[], bool],
    ) -> None:
        """Find out how to reach systemd. Its variables are removed: children have none.

        :param is_settled: returns whether a reload is over.
        """
        names = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        address, watchdog_us, watched = (environment.pop(name, "") for name in names)
        self._call_later = call_later
        self._is_settled = is_settled
        self._is_reloading = False
        self._address = "\0" + address[1:] if address.startswith("@") else address
        if address and watchdog_us.isdecimal() and watched in ("", str(os.getpid())):
            self._keep_alive(int(watchdog_us) / 2e6)

    def event(self, event: LifeEvent) -> None:
        """Report that the server is ready, or that it stops."""
        if isinstance(event, ServerStarted):
            self._send("READY=1", f"STATUS=serving {', '.join(event.models)} at {event.url}")
        elif isinstance(event, ServerStopping):
            self._is_reloading = False
            self._send("STOPPING=1", "STATUS=stopping")

    def log(self, notice: Notice) -> None:
        """Report a reload, and later its end."""
        if notice.event == "reloading" and self._address:
            since_us = clock_gettime_ns(CLOCK_MONOTONIC) // 1000
            self._send("RELOADING=1", f"MONOTONIC_USEC={since_us}")
            if not self._is_reloading:
                self._is_reloading = True
                self._call_later(POLL_S, self._end_reload)

    def _end_reload(self) -> None:
        if not self._is_reloading:
            return
        if self._is_settled():
            self._is_reloading = False
            self._send("READY=1")
        else:
            self._call_later(POLL_S, self._end_reload)

    def _keep_alive(self, interval_s: float) -> None:
        self._send("WATCHDOG=1")
        self._call_later(interval_s, lambda: self._keep_alive(interval_s))

    def _send(self, *lines: str) -> None:
        if self._address:
            with (
                suppress(OSError),  # systemd is being replaced, or its queue is full
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
            ):
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode(), self._address)
