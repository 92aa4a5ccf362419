# SPDX-License-Identifier: Apache-2.0
"""The jobs that this front-end has under way, and the results of all that are kept."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event
from prometheus_client.core import GaugeMetricFamily

from servekit.errors import JobLost, NoRoomForAnswer
from servekit.extension import problem_response
from servekit.frontend.jobs.store import JobFolder, name_in

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prometheus_client import Metric

    from servekit.extension import BackgroundExchange, HttpResponse
    from servekit.frontend.jobs.store import Found
    from servekit.settings import Settings

__all__ = ["Registry"]

INLINE_BYTES = 64 * 1024  #: from here on a thread writes a result, and the loop goes on
LOOK_S = 0.1  #: how often a result that another front-end owes is looked for

log = logging.getLogger("servekit.frontend")


class Registry:
    """Makes sure that each job gets a result, even if that is an error."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        """Keep results in *directory*, with those of other front-ends."""
        self._folder = JobFolder(directory, settings.job_ttl)
        self._limit, self._max_bytes = settings.jobs, settings.jobs_size
        #: by name; the event is set once the result can be found, or the job is gone
        self._under_way: dict[str, tuple[BackgroundExchange, Event]] = {}
        self._writing = 0  #: bytes of results that threads are writing

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more."""
        return self._folder.count >= self._limit or self._folder.size >= self._max_bytes

    @property
    def is_owing(self) -> bool:
        """Whether some of this front-end's jobs have no result yet."""
        return bool(self._under_way)

    def add(self, job: BackgroundExchange, model: str, request_id: str) -> str:
        """Return the name of *job*, under which its result will be found.

        :raises OSError: there is no room on the disk.
        """
        name = self._folder.add(model, request_id)
        self._under_way[name] = job, Event()
        job.leave(partial(self._keep, name))
        return name

    def find(self, name: str) -> Found | None:
        """Return the job called *name*, whichever front-end has it."""
        return self._folder.find(name)

    def model_at(self, target: bytes) -> str:
        """Return the model of the job that a request target names; "" if it names none."""
        name = name_in(target)
        found = self._folder.find(name) if name else None
        return found.model if found is not None else ""

    def wait(self, name: str, limit_s: float) -> None:
        """Wait until it is worth looking for a result again. Blocks the greenlet."""
        if name in self._under_way:
            self._under_way[name][1].wait(min(limit_s, 1.0))
        else:
            gevent.sleep(min(limit_s, LOOK_S))

    def remove(self, name: str) -> None:
        """Forget a job; if it is another front-end's, that one will notice."""
        self._drop(name)
        self._folder.remove(name)

    def scan(self, now: float) -> None:
        """Follow what other front-ends did, answer for those that are gone, forget old jobs."""
        lost = self._folder.scan(now)
        self._folder.size += self._writing  # which it does not see yet
        for name in lost:
            found = self._folder.find(name)
            if found is None:
                self._folder.remove(name)
            elif found.result is None:  # else it was there before its front-end went
                self._put(name, problem_response(JobLost(), found.request_id))
        for name in self._under_way.keys() - self._folder.pending:
            self._drop(name)

    def collect(self) -> Iterable[Metric]:
        """Yield how much all front-ends keep."""
        jobs = GaugeMetricFamily("servekit_jobs", "Stored jobs by state", labels=["state"])
        pending = len(self._folder.pending)
        jobs.add_metric(["pending"], pending)
        jobs.add_metric(["answered"], self._folder.count - pending)
        yield jobs
        yield GaugeMetricFamily(
            "servekit_jobs_bytes", "Bytes of the stored results of jobs", value=self._folder.size
        )

    def _drop(self, name: str) -> None:
        """Cancel a job whose result nobody will fetch."""
        if name in self._under_way:
            job, is_stored = self._under_way.pop(name)
            job.drop()
            is_stored.set()

    # ------------------------------------------------------------ from a response to its file

    def _keep(self, name: str, response: HttpResponse) -> None:
        if self._folder.size + len(response.body) > self._max_bytes:
            response.discard()
            response = problem_response(NoRoomForAnswer(), response.request_id)
        size = len(response.body)
        self._folder.size += size  # before it is written: others come meanwhile
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
            self._folder.put(name, response)
        except OSError as error:
            log.error("the result of job %s is lost: %s", name, error)  # noqa: TRY400 - says it all
            self._folder.remove(name)

    def _end(self, name: str, response: HttpResponse) -> None:
        response.discard()
        if name in self._under_way:
            self._under_way.pop(name)[1].set()
