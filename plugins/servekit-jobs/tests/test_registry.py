# SPDX-License-Identifier: Apache-2.0
"""Every job gets a result, even if that is an error."""

import errno
import os
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import pytest
from servekit_jobs import middleware
from servekit_jobs.middleware import Jobs
from servekit_jobs.prefer import Preferences
from servekit_jobs.registry import Registry
from servekit_jobs.store import JobStore, StoredJob

from servekit.extension import BackgroundExchange, BaseExchange, HttpResponse
from servekit.settings import Settings


class Client(BaseExchange):
    """An exchange whose client has been answered."""

    is_encrypted, subject = False, ""


@pytest.fixture
def registry(tmp_path):
    return Registry(tmp_path, Settings(jobs=1))


def test_a_result_that_comes_while_its_front_end_leaves_is_not_lost(tmp_path, registry):
    ours = JobStore(tmp_path, 10.0)
    name = ours.add("echo", "r1")

    def leave(_owner):
        ours.put(name, HttpResponse(200, b"late"))
        return False

    registry._store._is_alive = leave
    registry.scan(0.0)

    assert registry.find(name).result.body == b"late"


def test_a_job_whose_front_end_died_while_writing_its_answer_is_told_to_be_lost(
    tmp_path, registry, monkeypatch
):
    dead = JobStore(tmp_path, 10.0)
    name = dead.add("echo", "r1")
    with monkeypatch.context() as patches:
        patches.setattr(Path, "rename", None)
        with pytest.raises(TypeError):  # dies here
            dead.put(name, HttpResponse(200, b"body"))
    os.close(dead._lock)
    registry.scan(0.0)

    assert registry.find(name).result.status == 503
    registry.remove(name)
    registry.scan(1.0)
    assert [len(path.name) for path in tmp_path.iterdir()] == [8], "more than our own lock"


class FullStore(JobStore):
    """A disk without room."""

    def put(self, *_result):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_result_that_cannot_be_written_is_lost_and_logged(tmp_path, registry, caplog):
    registry._store = FullStore(tmp_path, 10.0)
    exchange = BackgroundExchange(Client(None))
    name = registry.add(exchange, "echo", "r1")
    exchange.respond(HttpResponse(200, b"body"))

    assert (registry.find(name), registry.is_running, registry.is_full) == (None, False, False)
    assert f"the result of job {name} is lost: [Errno 28] No space left" in caplog.text


def test_waiting_ends_when_the_client_is_gone():
    waited, shown = [], []

    def wait(_name, left_s):
        waited.append(left_s)
        client.is_closed = True

    client = SimpleNamespace(is_closed=False)
    jobs = Jobs.__new__(Jobs)
    jobs._server = SimpleNamespace(is_draining=False)
    jobs._registry = SimpleNamespace(find=lambda _name: StoredJob("echo", "", None), wait=wait)
    jobs._wait(client, "name", monotonic() + 60, lambda: shown.append(1))

    assert (len(waited), shown) == (1, [])


def test_preferences_are_read_only_if_a_request_asks_a_model_for_a_prediction(monkeypatch):
    read, passed = [], []
    monkeypatch.setattr(
        middleware, "preferences", lambda value: read.append(value) or Preferences()
    )
    jobs = Jobs.__new__(Jobs)
    jobs._server = SimpleNamespace(find_model=lambda request: request.model)
    for model in ("", "echo"):
        request = SimpleNamespace(
            refusal=None, headers={b"prefer": b"wait=1"}, target=b"/ping", model=model
        )
        jobs(None, request, lambda _exchange, request: passed.append(request.model))

    assert (read, passed) == ([b"wait=1"], ["", "echo"])
