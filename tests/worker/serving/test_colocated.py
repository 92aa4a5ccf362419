# SPDX-License-Identifier: Apache-2.0
"""A worker process that has the services of several stages."""

import json

import pytest

from servekit.ipc.batches import Ping
from servekit.ipc.control import BootFailed
from tests.worker.worker_process import item, run

SUM = {"x": [1, 2]}


@pytest.fixture
def channel(start):
    """Return a channel to a worker that echoes, sums and misbehaves."""
    worker = start("echo:Echo", colocated={"sum": "echo:Sum", "sick": "faults:SickPing"}).boot()
    assert worker.colocated.keys() == {"sum", "sick"}
    return worker.connect()


def names(answers):
    return [name for name, _ in answers]


def test_calls_name_stages_and_what_runs_one_after_another(channel):
    calls = run("host", "sum")
    found = channel.predict(*[item(each, calls=calls) for each in (SUM, {"x": "text"}, SUM)])
    assert names(found) == ["PredictFailed"] * 3  # as one batch of sum's would
    assert list(channel.reply.steps) == ["host", "sum"]
    ((_, body),) = channel.predict(item(SUM, calls=calls))
    assert json.loads(body) == {"prediction": 3}

    known = [run("host"), calls, run("sum")]
    unknown = [run("host", "nobody"), run("nobody"), run("host.nothing")]
    found = channel.predict(*[item(SUM, calls=each) for each in (*known, *unknown, ())])

    bodies = [json.loads(body).get("prediction") for _, body in found]
    assert bodies == [SUM, 3, 3, None, None, None, SUM]
    assert set(names(found[3:6])) == {"RouteNotFound"}


def test_one_sick_stage_makes_the_worker_sick(channel):
    channel.send(Ping())

    assert channel.receive().reason == "RuntimeError"


FAILURES = {
    "the host": ("boots:LoadRaises", "echo:Sum", "stage host: ZeroDivisionError: division by zero"),
    "another": ("echo:Sum", "boots:LoadRaises", "stage other: ZeroDivisionError: division by zero"),
    "one that leaves": ("echo:Sum", "boots:LoadExits", "stage other: SystemExit: cannot go on"),
    "an async one": ("echo:Sum", "coroutines:Waits", "stage other: Waits is async, and an async"),
    "what is no service": ("echo:Sum", "boots:NotAService", "stage other: service: boots:NotAServ"),
}


@pytest.mark.parametrize(("host", "other", "reason"), FAILURES.values(), ids=FAILURES)
def test_a_failed_boot_names_the_stage(start, host, other, reason):
    said = start(host, colocated={"other": other}).receive()

    assert isinstance(said, BootFailed)
    assert said.reason.startswith(reason)
    assert "LoadRaises" not in host + other or said.reason.endswith("(boots.py:21)")
