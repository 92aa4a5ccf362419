# SPDX-License-Identifier: Apache-2.0
"""A front-end that answers later whom it is asked to (RFC 7240 4.1), where jobs are turned on."""

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
from servekit.frontend.jobs import responses as replies
from servekit.frontend.jobs.job import Job
from servekit.frontend.jobs.prefer import preferences
from servekit.frontend.jobs.registry import Keeper
from servekit.frontend.jobs.store import name_in
from servekit.frontend.server.front_end import REQUEST_ID, FrontEnd
from servekit.ipc.stream_formats import STREAM_FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servekit.errors import ServekitError
    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.exchange.protocols import Asker
    from servekit.frontend.http.request_builder import HttpRequest
    from servekit.frontend.pipelines.pipeline import Pipeline
    from servekit.ipc.counters import Counters
    from servekit.settings import Settings

__all__ = ["FrontEndWithJobs"]

RESULT_METHODS = "GET, HEAD, OPTIONS"
METHODS = f"{RESULT_METHODS}, DELETE"
SCAN_SHARE = 50  #: that scan takes at most one part in so many of the time
SCAN_S = 1.0  #: how late what other front-ends did may be noticed, and that an answer is old

log = logging.getLogger("servekit.frontend")


class FrontEndWithJobs(FrontEnd):
    """Serves predictions that are fetched later, beside all others; free for those."""

    def __init__(self, settings: Settings, run_dir: Path, counters: Counters) -> None:
        """Connect to the supervisor of *run_dir*; find there what others keep."""
        super().__init__(settings, run_dir, counters)
        self.jobs = self._keeper = Keeper(run_dir / "jobs", settings, self.heads)
        self._scan_at = 0.0

    # ------------------------------------------------------------ a prediction becomes a job

    def route(
        self,
        connection: Asker,
        request: HttpRequest,
        batcher: Batcher | Pipeline | None = None,
    ) -> None:
        """Send *request* on its way; as a job, if its client would rather come back."""
        if b"prefer" in request.headers and request.refusal is None:
            asked = preferences(request.headers[b"prefer"])
            way = batcher or self.router.find(request.method, request.target)
            if asked.is_async and way is not None:
                self._submit(connection, request, way, asked.wait_s)
                return
        super().route(connection, request, batcher)

    def _submit(
        self,
        connection: Asker,
        request: HttpRequest,
        way: Batcher | Pipeline,
        wait_s: float,
    ) -> None:
        """Route a job; what is answered at once, or within *wait_s*, is an answer like others."""
        if (refusal := self._refusal(request.headers.get(b"accept", b""))) is not None:
            way.metrics.count_status(refusal.status)
            request.refusal = refusal
            super().route(connection, request, way)
            return
        given = request.headers.get(b"x-request-id", b"")
        if not REQUEST_ID.fullmatch(given):  # the job and the word that it is one share it
            given = self.next_request_id().encode()
            request.headers[b"x-request-id"] = given
        connection.task = job = Job(connection)
        super().route(job, request, way)  # type: ignore[arg-type] # it is one to whoever answers
        if job.is_closed:
            return
        part = partial(self._part, connection, job, way.row.name, given.decode("latin-1"))
        if wait_s:
            gevent.spawn_later(wait_s, part)
        else:
            part()

    def _refusal(self, accept: bytes) -> ServekitError | None:
        if self.routing.table.is_draining:
            return Draining()
        if any(media_type.encode() in accept.lower() for media_type in STREAM_FORMATS):
            return NotAcceptable("a stream cannot be fetched later: leave Prefer out")
        return TooManyJobs() if self._keeper.is_full else None

    def _part(self, connection: Asker, job: Job, model: str, request_id: str) -> None:
        """Tell the client where to find the answer that is not there yet."""
        if job.is_closed or job.is_cancelled:  # who only ended its sending side waits for it
            return
        name, error = "", self._refusal(b"")
        if error is None:
            try:
                name = self._keeper.add(job, model, request_id)
            except OSError as failure:
                log.error("a job cannot be kept: %s", failure)  # noqa: TRY400 - says it all
                error = Unavailable()
        if error is not None:
            job.drop()
            connection.answer_problem(error, request_id)
        else:
            connection.task = None  # from here on it is the keeper's, whether or not this arrives
            connection.answer(*replies.accepted(self.heads.date, name, model, request_id))

    # ------------------------------------------------------------ its answer is fetched

    def _answer_other(self, connection: Asker, request: HttpRequest, request_id: str) -> None:
        """Answer what is no prediction."""
        name = name_in(request.target)
        if not name or b"access-control-request-method" in request.headers:
            super()._answer_other(connection, request, request_id)
            return
        is_result, method = b"/result" in request.target.partition(b"?")[0], request.method
        if method in (b"GET", b"HEAD"):
            wait_s = preferences(request.headers.get(b"prefer", b"")).wait_s
            show = partial(self._show, connection, method, name, request_id, is_result=is_result)
            if wait_s:
                gevent.spawn(self._wait, connection, name, monotonic() + wait_s, show)
            else:
                show()
        elif method == b"DELETE" and not is_result:
            self._remove(connection, name, request_id)
        else:
            allowed = RESULT_METHODS if is_result else METHODS
            if method == b"OPTIONS":
                connection.answer(replies.methods(self.heads.date, request_id, allowed), b"")
            else:
                connection.answer_problem(MethodNotAllowed(allow=allowed), request_id)

    def _wait(self, connection: Asker, name: str, until: float, show: Callable[[], None]) -> None:
        """Call *show* once there is an answer, or the time is over. Runs in a greenlet.

        Of a client that is gone it sees within a second, and ends.
        """
        while (left_s := until - monotonic()) > 0 and not self.is_draining:
            if connection.is_closed:
                return
            found = self._keeper.find(name)
            if found is None or found.answer is not None:
                break
            self._keeper.wait(name, left_s)
        show()

    def _show(
        self,
        connection: Asker,
        method: bytes,
        name: str,
        request_id: str,
        *,
        is_result: bool,
    ) -> None:
        found = self._keeper.find(name)
        if found is None:
            connection.answer_problem(JobNotFound(), request_id)
            return
        head, body = (
            found.answer
            if is_result and found.answer is not None
            else replies.state(self.heads.date, name, found, request_id, is_result=is_result)
        )
        connection.answer(head, b"" if method == b"HEAD" else body)

    def _remove(self, connection: Asker, name: str, request_id: str) -> None:
        if self._keeper.find(name) is None:
            connection.answer_problem(JobNotFound(), request_id)
            return
        self._keeper.remove(name)
        connection.answer(replies.removed(self.heads.date, request_id), b"")

    # ------------------------------------------------------------ time

    def _sweep(self) -> None:
        super()._sweep()
        if (now := monotonic()) >= self._scan_at:
            self._keeper.scan(now)
            self._scan_at = now + max(SCAN_S, SCAN_SHARE * (monotonic() - now))

    def _close_idle_for(self, limit_s: float) -> None:
        """Wait for jobs too: another front-end may be asked for their answers."""
        until = monotonic() + limit_s
        super()._close_idle_for(limit_s)
        while self._keeper.is_owing and monotonic() < until:
            gevent.sleep(0.02)
