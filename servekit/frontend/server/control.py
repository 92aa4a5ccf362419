# SPDX-License-Identifier: Apache-2.0
"""The front-end's end of the control socket: routing tables in, reports out."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

from gevent.event import Event
from gevent.monkey import get_original

from servekit.ipc.channel import ChannelClosed, FrameReader, encode_frame
from servekit.ipc.control import FrontEndReady, TableTaken
from servekit.ipc.table import TableUpdate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.ipc.control import ControlMessage
    from servekit.ipc.table import ModelRow, Table

__all__ = ["Control"]

READ = 1


class Control:
    """One connection to the supervisor; when it ends, so does this process."""

    def __init__(self, path: Path) -> None:
        """Connect to *path*."""
        self._socket = get_original("socket", "socket")(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))
        self._reader: FrameReader[TableUpdate] = FrameReader(self._socket, TableUpdate)
        self._rows: dict[int, ModelRow] = {}  #: the models of the newest table, by number
        self._next_table = Event()

    def follow(self, loop: EventLoop, on_table: Callable[[Table], None]) -> None:
        """Hand every new table to *on_table*."""
        self._on_table = on_table
        self._watcher = loop.io(self._socket.fileno(), READ)
        self._watcher.start(self._on_readable)

    def say_ready(self) -> None:
        """Tell the supervisor that this front-end accepts connections."""
        self.say(FrontEndReady(os.getpid()))

    def say(self, message: ControlMessage) -> None:
        """Send *message*; it is small, and the supervisor always reads."""
        self._socket.sendall(encode_frame(message))

    def wait_for_table(self, timeout_s: float) -> None:
        """Return after the next table, or after *timeout_s* seconds. Runs in a greenlet."""
        self._next_table.wait(timeout_s)

    def _on_readable(self) -> None:
        try:
            updates = self._reader.read()
        except (ChannelClosed, OSError):
            sys.stderr.write("servekit: the supervisor exited; shutting down\n")
            os._exit(1)
        table = None
        for update in updates:
            table = update.applied(self._rows)
            self._rows = {row.number: row for row in table.models}
        if table is not None:
            self._on_table(table)
        if number := max((update.confirm for update in updates), default=0):
            self.say(TableTaken(number))
        arrived, self._next_table = self._next_table, Event()
        arrived.set()
