# SPDX-License-Identifier: Apache-2.0
"""The control socket: routing tables out to the front-ends, reports in."""

import socket
from collections.abc import Callable
from errno import EMFILE, ENFILE, ENOBUFS, ENOMEM
from pathlib import Path
from time import monotonic
from typing import Final

from servekit.ipc.control import ControlMessage, FrontEndReady, TableTaken
from servekit.ipc.table import ModelRow, Table, TableUpdate
from servekit.supervisor.os.channel import ControlChannel
from servekit.supervisor.os.coroutines import Conditions
from servekit.supervisor.os.listeners import bind_unix, is_ours
from servekit.supervisor.os.loop import Loop

__all__ = ["ControlSocket"]

EXHAUSTED = {EMFILE, ENFILE, ENOBUFS, ENOMEM}
RETRY_S = 0.1
TAKEN_S: Final = 10.0  #: how long ``spread`` waits for a front-end that hangs


class FrontEndLink:
    """The connection to one front-end."""

    def __init__(self) -> None:
        """Wait for ``channel``, which is set later."""
        self.channel: ControlChannel[ControlMessage]
        self.is_ready = False
        self.taken = 0  #: the number of the newest table that it has confirmed
        self._known: dict[int, ModelRow] = {}  #: the rows of the update before, by number

    def send(self, table: Table, number: int = 0) -> None:
        """Send what has changed in *table*; all of it in place of updates that it has not got.

        :param number: that it has to confirm, if it has not.
        """
        known = {} if self.channel.has_queued else self._known
        confirm = number if number > self.taken else 0
        self.channel.send(TableUpdate.since(known, table, confirm), replaces=True)
        self._known = {row.number: row for row in table.models}


class ControlSocket:
    """Accepts front-ends; each gets the whole table first, then every change."""

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
        self._links: list[FrontEndLink] = []
        self._number = 0  #: the newest table that somebody waits for
        self._confirmed = Conditions()
        self._listener = bind_unix(path)
        self._listener.setblocking(False)
        self._watch()

    def _watch(self) -> None:
        self._loop.watch(self._listener.fileno(), lambda _events: self._accept())

    def publish(self) -> None:
        """Send the table of this moment to every front-end, at the end of this turn."""
        self._loop.defer(self._send_table)

    async def spread(self) -> None:
        """Publish the table; return once every front-end that is ready answers by it."""
        self._number += 1
        number, deadline = self._number, monotonic() + TAKEN_S
        timer = self._loop.call_later(TAKEN_S, self._confirmed.check)
        self.publish()
        await self._confirmed.until(lambda: self._is_taken(number) or monotonic() >= deadline)
        timer.cancel()

    def _is_taken(self, number: int) -> bool:
        return all(link.taken >= number for link in self._links if link.is_ready)

    def _send_table(self) -> None:
        table = self._table()
        table.front_ends = len(self._links)
        for link in list(self._links):
            link.send(table, self._number)

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError as error:
            if error.errno in EXHAUSTED:  # the event loop would call at once, and again
                self._loop.unwatch(self._listener.fileno())
                self._loop.call_later(RETRY_S, self._watch)
            return  # or it has left again
        if is_ours(peer):
            self._add(peer)
        else:
            peer.close()

    def _add(self, peer: socket.socket) -> None:
        link = FrontEndLink()
        link.channel = ControlChannel(
            self._loop,
            peer,
            ControlMessage,
            lambda message: self._received(link, message),
            lambda: self._drop(link),
        )
        self._links.append(link)
        self.publish()  # to all: the others share the workers with it

    def _received(self, link: FrontEndLink, message: ControlMessage) -> None:
        if isinstance(message, FrontEndReady):
            link.is_ready = True
            self._count_ready()
        elif isinstance(message, TableTaken):
            link.taken = message.number
            self._confirmed.check()
        else:
            self._on_report(message)

    def _drop(self, link: FrontEndLink) -> None:
        self._links.remove(link)
        self.publish()  # the workers are shared with one less
        self._count_ready()
        self._confirmed.check()

    def _count_ready(self) -> None:
        self._on_ready(sum(link.is_ready for link in self._links))
