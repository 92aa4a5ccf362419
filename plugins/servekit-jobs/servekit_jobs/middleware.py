# SPDX-License-Identifier: Apache-2.0
"""Predictions that become jobs (``Prefer: respond-async``, RFC 7240 4.1), and ``/jobs``."""

from __future__ import annotations

import logging
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import gevent

from servekit.errors import Draining, MethodNotAllowed, NotAcceptable, Unavailable
from servekit.extension import BackgroundExchange
from servekit_jobs import responses
from servekit_jobs.errors import JobNotFound, TooManyJobs
from servekit_jobs.prefer import preferences
from servekit_jobs.registry import Registry
from servekit_jobs.store import name_in, read_job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servekit.errors import ServekitError
    from servekit.extension import Exchange, HttpRequest, Proceed, Server

__all__ = ["Jobs", "directory_of", "model_of"]

RESULT_METHODS = "GET, HEAD, OPTIONS"
METHODS = f"{RESULT_METHODS}, DELETE"
SCAN_SHARE = 50  #: scans take at most 1/50 of the time
SCAN_S = 1.0  #: delay until changes by other front-ends and old results are noticed
POLL_S = 0.1  #: how often to check whether it is time for a scan

log = logging.getLogger("servekit.frontend")


def model_of(server: Server, target: str) -> str:
    """Return the model of the job that a request target is about, or ""."""
    name = name_in(target.encode("latin-1"))
    job = read_job(directory_of(server), name) if name else None
    return job.model if job is not None else ""


class Jobs:
    """Middleware of one front-end."""

    def __init__(self, server: Server) -> None:
        """Serve the jobs of all front-ends of *server*."""
        self._server = server
        self._registry = Registry(directory_of(server), server.settings)
        self._scan_at = 0.0
        server.add_metrics(self._registry.collect)
        server.call_every(POLL_S, self._scan)
        server.wait_for(lambda: self._registry.is_running)  # other front-ends serve the results

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Make a job of *request*, respond if it is about one, or pass it on."""
        if request.refusal is not None:
            proceed(exchange, request)
        elif b"prefer" in request.headers and self._submits(exchange, request, proceed):
            return
        elif name := name_in(request.target):
            self._serve(exchange, request, name)
        else:
            proceed(exchange, request)

    # ------------------------------------------------------------ a prediction becomes a job

    def _submits(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> bool:
        """Make a job of *request* if its client prefers that; return whether it became one."""
        if not (model := self._server.find_model(request)):
            return False
        wanted = preferences(request.headers[b"prefer"])
        if not wanted.is_async:
            return False
        if (refusal := self._refusal()) is None and request.accepts_stream:
            refusal = NotAcceptable("a stream cannot be fetched later: leave Prefer out")
        if refusal is not None:
            self._server.count_refusal(request, refusal.status)
            request.refusal = refusal
            return False
        job = BackgroundExchange(exchange)
        proceed(job, request)
        if not job.is_closed:
            part = partial(self._part, exchange, job, model, request.request_id)
            if wanted.wait_s:
                gevent.spawn_later(wanted.wait_s, part)
            else:
                part()
        return True

    def _refusal(self) -> ServekitError | None:
        if self._server.is_shutting_down:
            return Draining()
        return TooManyJobs() if self._registry.is_full else None

    def _part(
        self, exchange: Exchange, job: BackgroundExchange, model: str, request_id: str
    ) -> None:
        """Tell the client where it finds the result later."""
        if job.is_closed or job.is_cancelled:  # a client that half-closed waits for the response
            return
        name, error = "", self._refusal()
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
            # from here on the registry has the job, whether or not this arrives
            exchange.respond(responses.accepted(name, model, request_id))

    # ------------------------------------------------------------ its result is fetched

    def _serve(self, exchange: Exchange, request: HttpRequest, name: str) -> None:
        """Respond to a request about the job called *name*."""
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
            self._delete(exchange, name, request_id)
        else:
            methods = RESULT_METHODS if is_result else METHODS
            if method == b"OPTIONS":
                exchange.respond(responses.allowed(methods, request_id))
            else:
                exchange.fail(MethodNotAllowed(allow=methods), request_id)

    def _wait(self, exchange: Exchange, name: str, until: float, show: Callable[[], None]) -> None:
        """Call *show* once there is a result, or the time is over. Runs in a greenlet.

        It ends within a second after the client has disconnected.
        """
        while (left_s := until - monotonic()) > 0 and not self._server.is_draining:
            if exchange.is_closed:
                return
            job = self._registry.find(name)
            if job is None or job.result is not None:
                break
            self._registry.wait(name, left_s)
        show()

    def _show(self, exchange: Exchange, name: str, request_id: str, *, is_result: bool) -> None:
        job = self._registry.find(name)
        if job is None:
            exchange.fail(JobNotFound(), request_id)
        elif is_result and job.result is not None:
            exchange.respond(job.result)
        else:
            exchange.respond(responses.state(name, job, request_id, is_result=is_result))

    def _delete(self, exchange: Exchange, name: str, request_id: str) -> None:
        if self._registry.find(name) is None:
            exchange.fail(JobNotFound(), request_id)
            return
        self._registry.remove(name)
        exchange.respond(responses.deleted(request_id))

    def _scan(self) -> None:
        """Follow what other front-ends did, now and then."""
        if (now := monotonic()) >= self._scan_at:
            self._registry.scan(now)
            self._scan_at = now + max(SCAN_S, SCAN_SHARE * (monotonic() - now))


def directory_of(server: Server) -> Path:
    """Return where all front-ends keep jobs."""
    return server.run_directory / "jobs"
