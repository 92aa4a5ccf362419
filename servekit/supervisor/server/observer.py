# SPDX-License-Identifier: Apache-2.0
"""The observer, the process that notifies plugins, as the supervisor sees it.

It is started when a front-end reports that an installed plugin implements one of its hooks. Earlier
events are kept until then; without such a plugin there is no process.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path
from time import time

from msgspec import msgpack

from servekit.extension.events import EventsLost, LifeEvent, LogRecord, NoMoreEvents
from servekit.supervisor.os.listeners import bind_unix
from servekit.supervisor.os.loop import WRITE, Loop
from servekit.supervisor.os.process import ProcessSpec, python_module
from servekit.supervisor.os.run_directory import MANAGE_SOCKET, OBSERVER_SOCKET
from servekit.supervisor.reporting.journal import Journal, Notice
from servekit.supervisor.server.kept_process import LEAVE_S, KeptProcess

__all__ = ["ObserverProcess"]

END = msgpack.encode(NoMoreEvents())
SUBJECT = "observer"  #: in the log
MAX_WAITING = 1000  #: messages, until the observer has started or reads on


class ObserverProcess(KeptProcess):
    """Sends events to the observer; the oldest are dropped if it does not keep up."""

    def __init__(
        self,
        loop: Loop,
        run_dir: Path,
        log_format: str,
        journal: Journal,
        on_change: Callable[[], object],
    ) -> None:
        """Keep events until a front-end reports the hooks of plugins."""
        super().__init__(loop, SUBJECT, self._spec, journal, on_change)
        self._run_dir = run_dir
        self._log_format = log_format
        self._hooks: Collection[str] | None = None  #: ``None``: no front-end has reported them yet
        self._waiting: deque[bytes] = deque()
        self._lost = 0
        self._has_complained = False
        self._listener: socket.socket | None = None
        self._connection: socket.socket | None = None

    def want(self, hooks: Collection[str]) -> None:
        """Start it if plugins implement some of its *hooks*, as a front-end reports."""
        has_listener, self._hooks = self._listener is not None, hooks
        if not hooks:
            self._waiting.clear()
        elif not has_listener:
            try:
                self._listener = bind_unix(self._run_dir / OBSERVER_SOCKET, socket.SOCK_SEQPACKET)
            except OSError as error:
                self._hooks = ()
                text = f"cannot be started: {error.strerror}"
                self._journal.notice(Notice("observer_exited", SUBJECT, text, "error"))
            else:
                self.try_to_start()

    def event(self, event: LifeEvent) -> None:
        """Pass *event* on."""
        if self._hooks is None or event.hook in self._hooks:
            self._send(event)

    def log(self, notice: Notice) -> None:
        """Pass one record of the log on, unless it is about ourselves."""
        if notice.subject != SUBJECT and (self._hooks is None or "export_logs" in self._hooks):
            self._send(
                LogRecord(
                    time_s=time(),
                    level=notice.level,
                    name=notice.event,
                    subject=notice.subject,
                    text=notice.text,
                    fields=notice.members,
                )
            )

    def close(self) -> None:
        """Close the sockets."""
        self._disconnect()
        if self._listener:
            self._listener.close()

    def _spec(self) -> ProcessSpec:
        assert self._listener is not None
        listener = self._listener.fileno()
        self._disconnect()
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.setblocking(False)
        self._connection.connect(os.fspath(self._run_dir / OBSERVER_SOCKET))
        self._flush()
        return ProcessSpec(
            arguments=python_module(
                "servekit.observer",
                *("--parent", str(os.getpid())),
                *("--listener", str(listener)),
                *("--run-dir", str(self._run_dir)),
                *("--manage", str(self._run_dir / MANAGE_SOCKET)),
                *("--log-format", self._log_format),
            ),
            environment=dict(os.environ),
            inherited=(listener,),
        )

    def _leave(self) -> None:
        """Let it pass on the waiting events, and kill it if that takes too long."""
        self._set_timer(LEAVE_S, self.kill)
        self._waiting.append(END)
        self._flush()

    def _send(self, message: LifeEvent | LogRecord) -> None:
        self._waiting.append(msgpack.encode(message))
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popleft()
            self._lost += 1
            if self._hooks and not self._has_complained:
                self._has_complained = True
                text = "does not keep up: some events are lost"
                self._journal.notice(Notice("events_lost", SUBJECT, text, "warning"))
        self._flush()

    def _flush(self) -> None:
        """Send waiting messages until the socket is full; each is sent whole or not at all."""
        try:
            while self._waiting and self._connection:
                if self._lost:
                    self._connection.send(msgpack.encode(EventsLost(count=self._lost)))
                    self._lost = 0
                self._connection.send(self._waiting[0])
                if self._waiting.popleft() == END:
                    self._disconnect()
        except BlockingIOError:
            self._watch(WRITE)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:  # a very long line of the log
                self._waiting.popleft()
                self._lost += 1
            else:  # it has ended; the next one gets the waiting messages
                self._disconnect()
        else:
            self._watch(0)

    def _watch(self, events: int) -> None:
        if self._connection and events:
            self._loop.watch(self._connection.fileno(), lambda _events: self._flush(), events)
        elif self._connection:
            self._loop.unwatch(self._connection.fileno())

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._loop.unwatch(self._connection.fileno())
            self._connection.close()
            self._connection = None
