# SPDX-License-Identifier: Apache-2.0
"""``/ping`` tells the truth."""

import pytest

from servekit.errors import ModelNotFound
from servekit.ipc.table import PREPARING, ReplicaRow, Table, TrafficRow
from servekit.web.health import why_not_ready

from .fakes import FakeServer, model_row

CRASHED = ReplicaRow(0, 3, "/run/0.sock", "backoff", reason="exited with -9\nTraceback ...")
UNLOADABLE = model_row("broken", replicas=[], reason="weights.npy: changed since it was built")


@pytest.mark.parametrize("path", ["/ping", "/ping/ready", "/digits/ping"])
def test_a_server_whose_models_all_answer_is_healthy(client, path):
    answer = client.get(path)

    assert (answer.status_code, answer.json) == (200, {"health": "healthy!"})


@pytest.mark.parametrize(
    ("models", "reasons"),
    [
        pytest.param([], ["no models"], id="an empty server is not ready"),
        pytest.param(
            [model_row("digits")],
            ["digits: no replica answers (0 is serving)"],
            id="a replica that calls itself serving but does not answer is not ready",
        ),
        pytest.param(
            [model_row("digits", replicas=[CRASHED])],
            ["digits: no replica answers (0 is backoff)"],
            id="the state of a replica that is away is told, its reason is not",
        ),
        pytest.param(
            [UNLOADABLE],
            ["broken: cannot be loaded"],
            id="that a model cannot be loaded is told, why is in the log",
        ),
        pytest.param(
            [model_row("new", replicas=[], reason=PREPARING)],
            ["new: loading"],
            id="a model whose assets are still fetched is not called one that cannot be loaded",
        ),
        pytest.param(
            [model_row("a", replicas=[]), model_row("b", replicas=[])],
            ["a: no replica answers (no replicas)", "b: no replica answers (no replicas)"],
            id="every model that is away is named",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/ping", "/ping/ready"])
def test_a_server_that_cannot_predict_says_why(models, reasons, path):
    server = FakeServer(*models)
    server.live.clear()

    answer = server.client().get(path)

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json == {"health": "unhealthy!", "reasons": reasons}


def test_one_model_that_is_away_makes_the_server_unready_and_the_other_stays_healthy(
    server, client
):
    server.live["echo"] = 0

    statuses = [client.get(path).status_code for path in ("/ping", "/echo/ping", "/digits/ping")]

    assert statuses == [503, 503, 200]


@pytest.mark.parametrize(
    ("live", "unready"),
    [({"digits": 1}, ["2", "new"]), ({"digits 2": 1}, ["", "1"]), ({}, ["", "1", "2", "new"])],
)
def test_each_version_is_ready_for_itself(live, unready):
    traffic = TrafficRow(aliases={"new": "2"})
    others = [model_row("digits", version="2")]
    server = FakeServer(model_row("digits", version="1", versions=others, traffic=traffic))
    server.live = live

    versions = ("", "1", "2", "new")
    assert [each for each in versions if why_not_ready(server, "digits", each)] == unready
    with pytest.raises(ModelNotFound, match="no version 3"):
        why_not_ready(server, "digits", "3")


@pytest.mark.parametrize("path", ["/ping", "/ping/ready", "/digits/ping"])
def test_a_draining_server_is_not_ready(server, client, path):
    server.table = Table(server.table.models, is_draining=True)

    answer = client.get(path)

    assert (answer.status_code, answer.json["reasons"]) == (503, ["shutting down"])


def test_a_required_daemon_that_does_not_run_makes_the_server_unready(server, client):
    server.table = Table(server.table.models, missing_daemons=["redis"])

    answer = client.get("/ping")

    assert (answer.status_code, answer.json["reasons"]) == (503, ["daemon redis is not running"])
    assert client.get("/digits/ping").status_code == 200


def test_a_server_that_cannot_predict_is_alive_all_the_same():
    assert FakeServer().client().get("/ping/live").status_code == 200


def test_health_is_never_cached(client):
    assert client.get("/ping").headers["Cache-Control"] == "no-store"


def test_a_long_reason_is_cut():
    server = FakeServer(model_row("digits", replicas=[], reason="x" * 5000))
    server.live.clear()

    assert len(server.client().get("/ping").json["reasons"][0]) < 300
