# SPDX-License-Identifier: Apache-2.0
"""The control socket: routing tables out to the front-ends, reports in."""

import socket
from collections.abc import Callable
from pathlib import Path

from servekit.ipc.control import ControlMessage, FrontEndReady
from servekit.ipc.table import Table
from servekit.supervisor.os.channel import ControlChannel
from servekit.supervisor.os.listeners import bind_unix, is_ours
from servekit.supervisor.os.loop import Loop

__all__ = ["ControlSocket"]


class ControlSocket:
    """Accepts front-ends; each gets the whole table at once and at every change."""

    def __init__(
        self,
        loop: Loop,
        path: Path,
        table: Callable[[], Table],
        on_ready: Callable[[int], object],
        on_report: Callable[[ControlMessage], object],
    ) -> None:
        """Listen at *path*.

        :param on_ready: gets how many front-ends are ready, at every change.
        :param on_report: gets every other message of a front-end.
        """
        self._loop = loop
        self._table = table
        self._on_ready = on_ready
        self._on_report = on_report
        self._links: dict[ControlChannel[ControlMessage], bool] = {}  #: and whether it is ready
        self._listener = bind_unix(path)
        self._listener.setblocking(False)
        loop.watch(self._listener.fileno(), lambda _events: self._accept())

    def publish(self) -> None:
        """Send the table of this moment to every front-end, at the end of this turn."""
        self._loop.defer(self._send_table)

    def _send_table(self) -> None:
        table = self._table()
        for link in list(self._links):
            link.send(table, replaces=True)

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:  # it went away again, or we are out of descriptors
            return
        if is_ours(peer):
            self._add(peer)
        else:
            peer.close()

    def _add(self, peer: socket.socket) -> None:
        link: ControlChannel[ControlMessage] = ControlChannel(
            self._loop,
            peer,
            ControlMessage,
            lambda message: self._received(link, message),
            lambda: self._drop(link),
        )
        self._links[link] = False
        link.send(self._table())

    def _received(self, link: ControlChannel[ControlMessage], message: ControlMessage) -> None:
        if isinstance(message, FrontEndReady):
            self._links[link] = True
            self._on_ready(sum(self._links.values()))
        else:
            self._on_report(message)

    def _drop(self, link: ControlChannel[ControlMessage]) -> None:
        self._links.pop(link, None)
        self._on_ready(sum(self._links.values()))
