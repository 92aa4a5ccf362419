# SPDX-License-Identifier: Apache-2.0
"""The jobs that this front-end has under way, and the answers of all that are kept."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import gevent
from prometheus_client.core import GaugeMetricFamily

from servekit.errors import JobLost, NoRoomForAnswer
from servekit.frontend.jobs.job import problem_parts
from servekit.frontend.jobs.store import JobFolder, name_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from prometheus_client import Metric

    from servekit.frontend.exchange.response import AnswerHeads
    from servekit.frontend.jobs.job import Job
    from servekit.frontend.jobs.store import Found
    from servekit.settings import Settings

__all__ = ["Keeper"]

INLINE_BYTES = 64 * 1024  #: from here on a thread writes an answer, and the loop goes on
LOOK_S = 0.1  #: how often an answer that another front-end owes is looked for

log = logging.getLogger("servekit.frontend")


class Keeper:
    """Sees to it that each job gets an answer, be it that there is none."""

    def __init__(self, directory: Path, settings: Settings, heads: AnswerHeads) -> None:
        """Keep answers in *directory*, with those of other front-ends."""
        self._folder = JobFolder(directory, settings.job_ttl)
        self._limit, self._max_bytes = settings.jobs, settings.jobs_size
        self._heads = heads
        self._under_way: dict[str, Job] = {}
        self._writing = 0  #: bytes of answers that a thread writes just now

    @property
    def is_full(self) -> bool:
        """There is no room for one more."""
        return self._folder.count >= self._limit or self._folder.size >= self._max_bytes

    @property
    def is_owing(self) -> bool:
        """Some of ours have no answer yet."""
        return bool(self._under_way)

    def add(self, job: Job, model: str, request_id: str) -> str:
        """Return the name of *job* from now on; its answer will be found under it.

        :raises OSError: there is no room.
        """
        name = self._folder.add(model, request_id)
        self._under_way[name] = job
        job.part(partial(self._store, name, request_id))
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
        """Wait until it is worth to look for an answer again. Blocks the greenlet."""
        job = self._under_way.get(name)
        if job is not None:
            job.stored.wait(min(limit_s, 1.0))
        else:
            gevent.sleep(min(limit_s, LOOK_S))

    def remove(self, name: str) -> None:
        """Forget a job; if it is another front-end's, that one will see it."""
        self._forget(name)
        self._folder.remove(name)

    def scan(self, now: float) -> None:
        """Follow what other front-ends did, answer for those that are gone, forget what is old."""
        lost = self._folder.scan(now)
        self._folder.size += self._writing  # which it does not see yet
        for name in lost:
            found = self._folder.find(name)
            if found is None:
                self._folder.remove(name)
            elif found.answer is None:  # else it was there before its front-end went
                parts = problem_parts(JobLost(), found.request_id, self._heads.date)
                self._put(name, *parts)
        for name in self._under_way.keys() - self._folder.pending:
            self._forget(name)

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

    def _forget(self, name: str) -> None:
        """Nobody will fetch the answer of *name*: no worker needs to go on with it."""
        job = self._under_way.pop(name, None)
        if job is not None:
            job.drop()
            job.stored.set()

    # ------------------------------------------------------------ from an answer to its file

    def _store(
        self,
        name: str,
        request_id: str,
        head: bytes,
        body: bytes | memoryview,
        release: Callable[[], None] | None,
    ) -> None:
        if self._folder.size + len(body) > self._max_bytes:
            if release is not None:
                release()
            head, body = problem_parts(NoRoomForAnswer(), request_id, self._heads.date)
            release = None
        self._folder.size += len(body)  # before it is written: others come meanwhile
        if len(body) < INLINE_BYTES:
            self._put(name, head, body)
            self._end(name, release)
        else:
            self._writing += len(body)
            gevent.spawn(self._store_later, name, head, body, release)

    def _store_later(
        self,
        name: str,
        head: bytes,
        body: bytes | memoryview,
        release: Callable[[], None] | None,
    ) -> None:
        gevent.get_hub().threadpool.apply(self._put, (name, head, body))
        self._writing -= len(body)
        self._end(name, release)

    def _put(self, name: str, head: bytes, body: bytes | memoryview) -> None:
        """Write an answer. Runs in a thread, if it is large."""
        try:
            self._folder.put(name, head, body)
        except OSError as error:
            log.error("the answer of job %s is lost: %s", name, error)  # noqa: TRY400 - says it all
            self._folder.remove(name)

    def _end(self, name: str, release: Callable[[], None] | None) -> None:
        if release is not None:
            release()
        job = self._under_way.pop(name, None)
        if job is not None:
            job.stored.set()
