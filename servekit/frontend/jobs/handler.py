# SPDX-License-Identifier: Apache-2.0
"""Predictions that are answered later: ``Prefer: respond-async`` (RFC 7240 4.1), and ``/jobs``."""

from __future__ import annotations

import logging
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import gevent

from servekit.errors import (
    Draining,
    JobNotFound,
    MethodNotAllowed,
    NotAcceptable,
    TooManyJobs,
    Unavailable,
)
from servekit.extension import BackgroundExchange
from servekit.frontend.jobs import responses
from servekit.frontend.jobs.prefer import preferences
from servekit.frontend.jobs.registry import Registry
from servekit.frontend.jobs.store import JobFolder, name_in
from servekit.ipc.stream_formats import STREAM_FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.extension import Exchange, HttpRequest, Proceed, Server

__all__ = ["Jobs", "model_of"]

RESULT_METHODS = "GET, HEAD, OPTIONS"
METHODS = f"{RESULT_METHODS}, DELETE"
SCAN_SHARE = 50  #: a scan takes at most one part in so many of the time
SCAN_S = 1.0  #: how late it may be noticed what other front-ends did, and that a job is old

log = logging.getLogger("servekit.frontend")


def model_of(server: Server, target: str) -> str:
    """Return the model of the job that a request target names; "" if it names none."""
    name = name_in(target.encode("latin-1"))
    found = JobFolder.look(server.run_directory / "jobs", name) if name else None
    return found.model if found is not None else ""


class Jobs:
    """Middleware of one front-end."""

    def __init__(self, server: Server) -> None:
        """Find what other front-ends of *server* keep."""
        self._server = server
        self._registry = Registry(server.run_directory / "jobs", server.settings)
        self._scan_at = 0.0
        server.add_metrics(self._registry.collect)
        server.call_every(SCAN_S / 10, self._scan)
        server.wait_for(lambda: self._registry.is_owing)  # others may be asked for the results

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Make a job of *request*, answer it if it is about one, or pass it on."""
        if request.refusal is not None:
            proceed(exchange, request)
        elif b"prefer" in request.headers and self._submits(exchange, request, proceed):
            return
        elif name := name_in(request.target):
            self._answer(exchange, request, name)
        else:
            proceed(exchange, request)

    # ------------------------------------------------------------ a prediction becomes a job

    def _submits(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> bool:
        """Make a job of *request* if its client prefers that; return whether it is one."""
        asked = preferences(request.headers[b"prefer"])
        model = self._server.find_model(request) if asked.is_async else ""
        if not model:
            return False
        if (refusal := self._refusal(request.headers.get(b"accept", b""))) is not None:
            self._server.count_refusal(request, refusal.status)
            request.refusal = refusal
            return False
        job = BackgroundExchange(exchange)
        proceed(job, request)
        if not job.is_closed:
            part = partial(self._part, exchange, job, model, request.request_id)
            if asked.wait_s:
                gevent.spawn_later(asked.wait_s, part)
            else:
                part()
        return True

    def _refusal(self, accept: bytes) -> ServekitError | None:
        if self._server.table.is_draining:
            return Draining()
        if any(media_type.encode() in accept.lower() for media_type in STREAM_FORMATS):
            return NotAcceptable("a stream cannot be fetched later: leave Prefer out")
        return TooManyJobs() if self._registry.is_full else None

    def _part(
        self, exchange: Exchange, job: BackgroundExchange, model: str, request_id: str
    ) -> None:
        """Tell the client where to find the result that is not there yet."""
        if job.is_closed or job.is_cancelled:  # who only ended its sending side waits for it
            return
        name, error = "", self._refusal(b"")
        if error is None:
            try:
                name = self._registry.add(job, model, request_id)
            except OSError as failure:
                log.error("a job cannot be kept: %s", failure)  # noqa: TRY400 - says it all
                error = Unavailable()
        if error is not None:
            job.drop()
            exchange.fail(error, request_id)
        else:
            # from here on it is the registry's, whether or not this arrives
            exchange.respond(responses.accepted(name, model, request_id))

    # ------------------------------------------------------------ its result is fetched

    def _answer(self, exchange: Exchange, request: HttpRequest, name: str) -> None:
        """Answer a request about the job called *name*."""
        is_result, method = b"/result" in request.target.partition(b"?")[0], request.method
        request_id = request.request_id
        if method in (b"GET", b"HEAD"):
            wait_s = preferences(request.headers.get(b"prefer", b"")).wait_s
            show = partial(self._show, exchange, name, request_id, is_result=is_result)
            if wait_s:
                gevent.spawn(self._wait, exchange, name, monotonic() + wait_s, show)
            else:
                show()
        elif method == b"DELETE" and not is_result:
            self._remove(exchange, name, request_id)
        else:
            allowed = RESULT_METHODS if is_result else METHODS
            if method == b"OPTIONS":
                exchange.respond(responses.methods(request_id, allowed))
            else:
                exchange.fail(MethodNotAllowed(allow=allowed), request_id)

    def _wait(self, exchange: Exchange, name: str, until: float, show: Callable[[], None]) -> None:
        """Call *show* once there is a result, or the time is over. Runs in a greenlet.

        That a client is gone is noticed within a second.
        """
        while (left_s := until - monotonic()) > 0 and not self._server.is_draining:
            if exchange.is_closed:
                return
            found = self._registry.find(name)
            if found is None or found.result is not None:
                break
            self._registry.wait(name, left_s)
        show()

    def _show(self, exchange: Exchange, name: str, request_id: str, *, is_result: bool) -> None:
        found = self._registry.find(name)
        if found is None:
            exchange.fail(JobNotFound(), request_id)
        elif is_result and found.result is not None:
            exchange.respond(found.result)
        else:
            exchange.respond(responses.state(name, found, request_id, is_result=is_result))

    def _remove(self, exchange: Exchange, name: str, request_id: str) -> None:
        if self._registry.find(name) is None:
            exchange.fail(JobNotFound(), request_id)
            return
        self._registry.remove(name)
        exchange.respond(responses.removed(request_id))

    def _scan(self) -> None:
        """Follow what other front-ends did, now and then."""
        if (now := monotonic()) >= self._scan_at:
            self._registry.scan(now)
            self._scan_at = now + max(SCAN_S, SCAN_SHARE * (monotonic() - now))
