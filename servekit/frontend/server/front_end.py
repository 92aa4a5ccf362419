# SPDX-License-Identifier: Apache-2.0
"""One front-end: accepts connections, knows the routing table, routes requests, keeps time."""

from __future__ import annotations

import logging
import os
import re
from time import monotonic
from typing import TYPE_CHECKING, Any

import gevent

from servekit.errors import ClientError, Draining, Unavailable
from servekit.frontend.batching.admission import admit, refuse
from servekit.frontend.batching.task import INFINITY, Task
from servekit.frontend.exchange.response import AnswerHeads, options_head
from servekit.frontend.http.fields import TRACE, picked, with_query
from servekit.frontend.http.loop_slices import Slices
from servekit.frontend.http.targets import ASTERISK
from servekit.frontend.memory.pressure import Pressure
from servekit.frontend.middleware.cors import Cors
from servekit.frontend.pipelines.pipeline import Pipeline
from servekit.frontend.routing.table import Routing
from servekit.frontend.server.acceptor import Acceptor
from servekit.frontend.server.control import Control
from servekit.frontend.server.timeouts import Expiry, longest_look_s
from servekit.frontend.server.wsgi import call_application
from servekit.ipc import crash_reports as crashes
from servekit.ipc.batches import Slab
from servekit.ipc.control import Reload

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Iterable
    from pathlib import Path

    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.exchange.protocols import Asker, Watched
    from servekit.frontend.http.request_builder import HttpRequest
    from servekit.frontend.jobs.registry import Keeper
    from servekit.frontend.middleware.access_log import AccessLog
    from servekit.frontend.middleware.auth import Access
    from servekit.frontend.middleware.compression import Compression
    from servekit.frontend.server.connection_shares import Shares
    from servekit.frontend.server.management import Door
    from servekit.ipc.counters import Counters
    from servekit.ipc.crash_reports import CrashReport
    from servekit.ipc.table import Table
    from servekit.settings import Settings

__all__ = ["FrontEnd"]

SWEEP_S = 0.1  #: how late a deadline or a timeout may be noticed
APPLICATION_S = 0.0005  #: that the Flask app takes for an answer
LAST_ANSWERS_S = 0.5  #: for the 503s of what was not finished within the grace
OVERLAP_S = 1.0  #: how long one whose place is taken accepts on, while the other one boots
REACH_S = 2.0  #: how long a new front-end tries to reach the workers before it accepts
REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
TIMEOUT_MS = re.compile(rb"[0-9]{1,9}")

log = logging.getLogger("servekit.frontend")


class FrontEnd:
    """The state that the connections of one front-end process share."""

    def __init__(self, settings: Settings, run_dir: Path, counters: Counters) -> None:
        """Connect to the supervisor of *run_dir*; accept nothing yet.

        :param counters: of all front-ends; this one has the share that was given last.
        """
        self.settings = settings
        self.loop = gevent.get_hub().loop
        self.heads = AnswerHeads()
        self.slices = Slices(self.loop)
        self.connections: set[Watched] = set()
        self.is_draining = False
        self.is_crowded = False  #: connections are closed after one answer
        self.address = (settings.host, settings.port)
        self.application: Any = None
        self.shares: Shares | None = None  #: it is the only one without them
        self.tls: ssl.SSLContext | None = None  #: connections are in the clear without it
        self.access: Access | None = None  #: nobody is refused without it
        self.compression: Compression | None = None  #: answers go as they are without it
        self.access_log: AccessLog | None = None  #: nothing is logged without it
        self.jobs: Keeper | None = None  #: nobody is answered later without it
        self.cors = Cors(settings.cors_origins) if settings.cors_origins else None
        self._run_dir = run_dir
        self._request_prefix = os.urandom(6).hex()
        self._requests = 0
        self._second = 0
        self._acceptor = Acceptor(self)
        self._others: list[Acceptor] = []  #: of management
        self._expiry = Expiry(longest_look_s(settings), monotonic())
        self.pressure = Pressure(settings.memory, settings.body_timeout)
        self._control = Control(run_dir / "control.sock", self.loop, self._on_table)
        self.counters, self.share = counters, counters.share(counters.last)
        self.routing = Routing(
            settings,
            counters,
            self.share,
            self.loop,
            self.heads,
            self._control.say,
            self.pressure,
        )
        self.router = self.routing.router

    # ------------------------------------------------------------ the life of a front-end

    def start(self, listeners: Iterable[socket.socket]) -> None:
        """Accept connections from *listeners* and tell the supervisor so.

        What serves already is reached first, so that a front-end that takes another's
        place refuses nothing; clients wait in the kernel meanwhile.
        """
        deadline = monotonic() + REACH_S
        while not self.routing.is_set_up and monotonic() < deadline:
            gevent.sleep(0.001)
        listeners = list(listeners)
        self.address = listeners[0].getsockname()[:2]
        self.pressure.sweep(monotonic())
        self._acceptor.open(listeners)
        self._sweeper = self.loop.timer(SWEEP_S, SWEEP_S)
        self._sweeper.start(self._sweep)
        self._control.say_ready()

    def open(self, door: Door, listener: socket.socket) -> None:
        """Accept from *listener* too; *door* answers."""
        acceptor = Acceptor(door)
        acceptor.open([listener])
        self._others.append(acceptor)

    def drain(self, grace_s: float) -> None:
        """Take what the kernel has accepted, answer what was taken, at most *grace_s* long."""
        self.is_draining = True
        if self.shares is not None:
            self.shares.leave()
        for batcher in self.routing.models:
            batcher.is_draining = True
        if not self.routing.table.is_draining:  # another front-end takes our place
            gevent.sleep(OVERLAP_S)
        self._acceptor.close(is_last=self.routing.table.is_draining)
        for acceptor in self._others:
            acceptor.close(is_last=False)
        self._close_idle_for(grace_s)
        for batcher in self.routing.models:
            batcher.fail_all(Draining())
        self._close_idle_for(LAST_ANSWERS_S)
        if self.access_log is not None:
            self.access_log.write()

    def _close_idle_for(self, limit_s: float) -> None:
        """Close each connection when it is idle, until none is left or the time is over."""
        deadline = monotonic() + limit_s
        while self.connections and monotonic() < deadline:
            self._close_idle(monotonic())
            gevent.sleep(0.02)

    def _close_idle(self, now: float) -> None:
        for connection in list(self.connections):
            connection.close_if_idle(now)

    def add(self, connection: Watched) -> None:
        """Keep *connection*, and its time."""
        self.connections.add(connection)
        self.is_crowded = len(self.connections) > self.settings.max_connections
        self._expiry.watch(connection, monotonic())

    def _sweep(self) -> None:
        now = monotonic()
        second = int(now)
        self.pressure.sweep(now)
        self.routing.models.sweep(now)
        self._expiry.sweep(now)
        if self.shares is not None and not self.is_draining:
            self.shares.note(len(self.connections), now)
        self.is_crowded = len(self.connections) > self.settings.max_connections
        for acceptor in (self._acceptor, *self._others):
            acceptor.resume()
        if self.access_log is not None:
            self.access_log.write()
        if second != self._second:
            self._second = second
            self.heads.renew()
            if self.pressure.is_high:
                self._close_idle(now)

    # ------------------------------------------------------------ one request's way

    def route(
        self,
        connection: Asker,
        request: HttpRequest,
        batcher: Batcher | Pipeline | None = None,
    ) -> None:
        """Send *request* to its model's queue, or to the Flask app.

        :param batcher: of its model, if it has been looked up.
        """
        headers = request.headers
        given = headers.get(b"x-request-id")
        if given is not None and REQUEST_ID.fullmatch(given):
            request_id = given.decode("latin-1")
        else:
            request_id = self.next_request_id()
        batcher = batcher or self.router.find(request.method, request.target)
        if request.refusal is not None or (self.pressure.is_full and batcher is not None):
            self._turn_away(connection, request, batcher, request_id)
            return
        if batcher is None:
            self._answer_other(connection, request, request_id)
            return
        cache = batcher.cache
        if cache is not None and cache.answers(connection, request, batcher, request_id):
            return
        self._begin(connection, request, batcher, request_id)

    def _begin(
        self,
        connection: Asker,
        request: HttpRequest,
        batcher: Batcher | Pipeline,
        request_id: str,
    ) -> None:
        """Make a task of *request*, or several of one for a pipeline."""
        headers, body, now = request.headers, request.body, monotonic()
        timeout_s, until, refusal = batcher.predict_timeout_s, INFINITY, None
        if b"x-request-timeout-ms" in headers:
            asked_s, refusal = _asked(headers[b"x-request-timeout-ms"])
            timeout_s, until = min(timeout_s, asked_s), now + asked_s
        deadline = now + timeout_s
        media_type, accept = headers.get(b"content-type", b""), headers.get(b"accept", b"")
        item = (body, media_type, accept, request_id, deadline)
        if isinstance(batcher, Pipeline):
            batcher.begin(connection, item, with_query(headers, request.target), now, refusal)
            return
        size = len(body) if isinstance(body, bytes) else body.size
        connection.task = task = Task(
            connection, batcher, item, request_id, now, deadline, size, until
        )
        if TRACE in headers or batcher.asked:
            task.headers = picked(with_query(headers, request.target), batcher.asked)
            batcher.has_headers = True
        if refusal is None:
            admit(task)
        else:
            refuse(task, refusal)

    def _answer_other(self, connection: Asker, request: HttpRequest, request_id: str) -> None:
        """Answer what is no prediction."""
        permission = self.cors.preflight(request) if self.cors is not None else None
        if permission is not None:
            connection.answer(permission + self.heads.date, b"")
        elif request.target == ASTERISK:
            connection.answer(options_head(request_id, self.heads.date), b"")
        else:
            if request.version == "2":  # many come at a time
                self.slices.charge(APPLICATION_S)
            gevent.spawn(call_application, self.application, connection, request, request_id)

    def _turn_away(
        self,
        connection: Asker,
        request: HttpRequest,
        batcher: Batcher | Pipeline | None,
        request_id: str,
    ) -> None:
        if batcher is not None and isinstance(request.body, Slab):
            batcher.bodies.free(request.body)
        connection.answer_problem(request.refusal or Unavailable(), request_id)

    def next_request_id(self) -> str:
        """Return an id that no other request of this server has."""
        self._requests += 1
        return f"{self._request_prefix}-{self._requests:x}"

    def log_exception(self, doing: str) -> None:
        """Log the exception being handled; the client sees none of it."""
        log.exception("unexpected error %s", doing)

    # ------------------------------------------------------------ what the Flask app sees

    @property
    def needs_token(self) -> bool:
        """Whether predictions need a bearer token."""
        return self.access is not None and self.access.needs_token

    def crashes(self) -> list[CrashReport]:
        """Return the crash reports that are kept."""
        return crashes.read_all(self._run_dir)

    def ask_reload(self) -> None:
        """Ask the supervisor for what SIGHUP makes it do."""
        self._control.say(Reload())

    # ------------------------------------------------------------ the routing table

    def _on_table(self, table: Table) -> None:
        self.is_draining = self.is_draining or table.is_draining
        self.routing.update(table)
        for batcher in self.routing.models:
            batcher.is_draining = self.is_draining


def _asked(value: bytes) -> tuple[float, ClientError | None]:
    """Return how long a client wants to wait; or that nobody can know."""
    if not TIMEOUT_MS.fullmatch(value):
        return INFINITY, ClientError("X-Request-Timeout-Ms: not a whole number of milliseconds")
    return int(value) / 1000, None
