# SPDX-License-Identifier: Apache-2.0
"""The jobs that this front-end runs, and the results of all front-ends."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event
from prometheus_client.core import GaugeMetricFamily

from servekit.extension import problem_response
from servekit_jobs.errors import JobLost, NoRoomForResult
from servekit_jobs.store import JobStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prometheus_client import Metric

    from servekit.extension import BackgroundExchange, HttpResponse
    from servekit.settings import Settings
    from servekit_jobs.store import StoredJob

__all__ = ["Registry"]

INLINE_BYTES = 64 * 1024  #: results from this size on are written in a thread
POLL_S = 0.1  #: how often to look for the result of a job that another front-end runs

log = logging.getLogger("servekit.frontend")


class Registry:
    """Makes sure that every job gets a result, even if that is an error."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        """Keep results in *directory*, with those of other front-ends."""
        self._store = JobStore(directory, settings.job_ttl)
        self._limit, self._max_bytes = settings.jobs, settings.jobs_size
        #: by name; the event is set once the result can be found, or the job is removed
        self._running: dict[str, tuple[BackgroundExchange, Event]] = {}
        self._writing = 0  #: bytes of results that threads are writing

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more."""
        return self._store.count >= self._limit or self._store.size >= self._max_bytes

    @property
    def is_running(self) -> bool:
        """Whether some jobs of this front-end have no result yet."""
        return bool(self._running)

    def add(self, exchange: BackgroundExchange, model: str, request_id: str) -> str:
        """Return the name of the job that *exchange* becomes.

        :raises OSError: the disk is full.
        """
        name = self._store.add(model, request_id)
        self._running[name] = exchange, Event()
        exchange.leave(partial(self._keep, name))
        return name

    def find(self, name: str) -> StoredJob | None:
        """Return the job called *name*, whichever front-end runs it."""
        return self._store.find(name)

    def wait(self, name: str, limit_s: float) -> None:
        """Wait until it is worth looking for a result again. Blocks the greenlet."""
        if name in self._running:
            self._running[name][1].wait(min(limit_s, 1.0))
        else:
            gevent.sleep(min(limit_s, POLL_S))

    def remove(self, name: str) -> None:
        """Remove a job; if another front-end runs it, that one notices in its next ``scan``."""
        self._drop(name)
        self._store.remove(name)

    def scan(self, now: float) -> None:
        """Follow other front-ends, fail the jobs of those that are gone, remove old results."""
        lost = self._store.scan(now)
        self._store.size += self._writing  # the files are not complete yet
        for name in lost:
            job = self._store.find(name)
            if job is None:
                self._store.remove(name)
            elif job.result is None:  # else it was stored just before its front-end was gone
                self._put(name, problem_response(JobLost(), job.request_id))
        for name in self._running.keys() - self._store.pending:
            self._drop(name)

    def collect(self) -> Iterable[Metric]:
        """Yield how much all front-ends keep."""
        jobs = GaugeMetricFamily("servekit_jobs", "Stored jobs by state", labels=["state"])
        pending = len(self._store.pending)
        jobs.add_metric(["pending"], pending)
        jobs.add_metric(["answered"], self._store.count - pending)
        yield jobs
        yield GaugeMetricFamily(
            "servekit_jobs_bytes", "Bytes of the stored results of jobs", value=self._store.size
        )

    def _drop(self, name: str) -> None:
        """Cancel a job that has been removed."""
        if name in self._running:
            exchange, is_stored = self._running.pop(name)
            exchange.drop()
            is_stored.set()

    # ------------------------------------------------------------ from a response to its file

    def _keep(self, name: str, response: HttpResponse) -> None:
        if self._store.size + len(response.body) > self._max_bytes:
            response.discard()
            response = problem_response(NoRoomForResult(), response.request_id)
        size = len(response.body)
        self._store.size += size  # before it is written: others come meanwhile
        if size < INLINE_BYTES:
            self._put(name, response)
            self._end(name, response)
        else:
            self._writing += size
            gevent.spawn(self._keep_later, name, response)

    def _keep_later(self, name: str, response: HttpResponse) -> None:
        gevent.get_hub().threadpool.apply(self._put, (name, response))
        self._writing -= len(response.body)
        self._end(name, response)

    def _put(self, name: str, response: HttpResponse) -> None:
        """Write a result. Runs in a thread, if it is large."""
        try:
            self._store.put(name, response)
        except OSError as error:
            log.error("the result of job %s is lost: %s", name, error)  # noqa: TRY400 - says it all
            self._store.remove(name)

    def _end(self, name: str, response: HttpResponse) -> None:
        response.discard()
        if name in self._running:
            self._running.pop(name)[1].set()
