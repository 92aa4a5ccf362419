# SPDX-License-Identifier: Apache-2.0
"""Predictions that clients come back for, at a server of several front-ends."""

import asyncio
import inspect
import json
import os
import re
import signal
import socket
import urllib.request
from pathlib import Path
from time import monotonic

import pytest
from servekit_client import AsyncClient, Client, NotFound

from tests.processes import is_alive
from tests.waiting import wait_until

from .conftest import WAIT_S, command_of

MODELS = Path(__file__).parent / "models"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]
TOKEN = {"Authorization": "Bearer open"}


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text("open")
    arguments = ("--front-ends=2", "--jobs=50", "--replicas=2", "--predict-token-file", tokens)
    return serve("--models", MODELS / "slow", MODELS / "several", *arguments)


def submit(server, value, **headers):
    body = json.dumps(value).encode()
    return server.post("/slow/predict", body, Prefer="respond-async", **TOKEN, **headers)


def ask(server, path, method="GET", **headers):
    request = urllib.request.Request(server.url + path, method=method, headers=headers)
    return server.send(request)


def result(server, job):
    return ask(server, job["result_url"], **TOKEN, Prefer="wait=20")


def children_of_gunicorn(server):
    pids = [pid for pid in server.tree() if b"servekit.frontend" in command_of(pid)]
    return pids[1:]  # the first is the parent of the others


def test_any_front_end_has_the_answer_that_one_of_them_got(server):
    jobs = wait_until(lambda: taken_by_both(server), "one front-end took all", every_s=0.5)
    answers = [result(server, job) for _ in range(4) for job in jobs]

    assert [status for status, _, _ in answers] == [200] * 32
    ids = [json.loads(body)["prediction"]["id"] for _, _, body in answers]
    assert ids == list(range(8)) * 4


def taken_by_both(server):
    """Return eight jobs if each of the front-ends has accepted some; one may stand still."""
    accepted = [submit(server, {"id": number}) for number in range(8)]
    assert {status for status, _, _ in accepted} == {202}
    jobs = [json.loads(body) for _, _, body in accepted]
    if len({job["id"].partition("-")[0] for job in jobs}) == 2:
        return jobs
    for job in jobs:
        ask(server, job["url"], "DELETE", **TOKEN)
    return None


def test_who_may_not_predict_may_not_see_jobs(server):
    job = json.loads(submit(server, {})[2])

    for path in (job["url"], job["result_url"]):
        assert ask(server, path)[0] == 401
        assert ask(server, path, Authorization="Bearer other")[0] == 401
    assert ask(server, job["url"], "DELETE")[0] == 401
    assert result(server, job)[0] == 200


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_the_client_comes_back_for_its_answers(server, kind):
    async def run():
        client = kind(server.url, token="open")
        job = await finished(client.submit("slow", {"seconds": 3, "id": 7}))
        assert not await finished(job.wait(0))
        assert (await finished(job.result(20)))["id"] == 7
        await finished(job.cancel())
        with pytest.raises(NotFound):
            await finished(client.submit("nobody", {}))
        await finished(client.close())

    asyncio.run(run())


async def finished(result):
    return await result if inspect.isawaitable(result) else result


@pytest.mark.parametrize(
    ("path", "value", "status", "output"),
    [
        ("/several/instances", {"instances": [{"x": 4}, {"x": -1}]}, 207, "predictions"),
        ("/several/predict", {"x": 9}, 200, "prediction"),
    ],
)
def test_several_instances_or_stages_are_one_job(server, path, value, status, output):
    body = json.dumps(value).encode()
    accepted, _, told = server.post(path, body, Prefer="respond-async", **TOKEN)
    found, _, answer = result(server, json.loads(told))

    assert (accepted, found) == (202, status)
    assert output in json.loads(answer)


def test_a_job_is_deleted_at_any_front_end(server):
    jobs = [json.loads(submit(server, {"seconds": 0.5 * (not n)})[2]) for n in range(8)]
    statuses = [ask(server, job["url"], "DELETE", **TOKEN)[0] for job in jobs]

    assert statuses == [204] * 8
    assert {ask(server, job["url"], **TOKEN)[0] for job in jobs for _ in range(4)} == {404}


def test_new_front_ends_have_the_answers_of_the_old_ones(server):
    done = json.loads(submit(server, {"id": "done"})[2])
    assert result(server, done)[0] == 200
    late = json.loads(submit(server, {"id": "late", "seconds": 1.5})[2])
    old = children_of_gunicorn(server)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: not any(map(is_alive, old)), "the old front-ends have gone")

    for job, name in ((done, "done"), (late, "late")):
        status, _, body = result(server, job)
        assert (status, json.loads(body)["prediction"]["id"]) == (200, name)


def test_a_job_whose_front_end_dies_is_told_to_be_lost_and_answers_stay(server):
    done = json.loads(submit(server, {"id": "done"})[2])
    assert result(server, done)[0] == 200
    lost = json.loads(submit(server, {"seconds": 5}, X_Request_Id="mine")[2])
    for pid in children_of_gunicorn(server):
        os.kill(pid, signal.SIGKILL)
    status, _, body = result(server, lost)

    assert (status, json.loads(body)["title"]) == (503, "Job lost")
    assert json.loads(body)["request_id"] == "mine"
    assert result(server, done)[0] == 200


def test_operators_see_all_jobs(server):
    job = json.loads(submit(server, {"id": "seen"})[2])
    assert result(server, job)[0] == 200
    path = re.search(r"managed at (\S+)", server.wait_for("managed at"))[1]
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(b"GET /jobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        listed = json.loads(
            b"".join(iter(lambda: sock.recv(65_536), b"")).partition(b"\r\n\r\n")[2]
        )

    assert job | {"status": "completed", "result_status": 200} in listed["jobs"]


def test_jobs_under_way_are_finished_before_the_stop(serve):
    server = serve("--models", MODELS / "slow", "--jobs=1")
    began = monotonic()
    assert submit(server, {"seconds": 1.5})[0] == 202
    server.process.terminate()

    assert server.process.wait(WAIT_S) == 0
    assert monotonic() - began > 1.5
