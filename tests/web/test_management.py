# SPDX-License-Identifier: Apache-2.0
"""What the management listener shows, and that the main one shows none of it."""

import pytest

from servekit.ipc.crash_reports import CrashReport
from servekit.ipc.table import ReplicaRow
from servekit.web import RouteMetrics, create_management

from .fakes import FakeServer, model_row

REPORT = CrashReport(
    model="digits", replica=0, generation=1, pid=7, time="2026-01-01T00:00:00Z", monotonic_s=1.0,
    exit_code=-9, signal="SIGKILL", cause="killed from outside", lived_s=2.0, served_s=1.0,
    restart_s=0.0, has_given_up=False, request_ids=["r-1"], last_lines=["bye"],
)  # fmt: skip


class Managed(FakeServer):
    """A front-end whose operator asks."""

    asked = 0

    def waiting(self):
        return {"digits": 3}

    def crashes(self):
        return [REPORT]

    def ask_reload(self):
        self.asked += 1


@pytest.fixture
def managed():
    replica = ReplicaRow(0, 3, "/run/x.sock", "serving", "exited with -9", pid=42)
    return Managed(model_row("digits", replicas=[replica]), model_row("broken", reason="no file"))


@pytest.fixture
def operator(managed):
    return create_management(managed, RouteMetrics(managed)).test_client()


def test_models_are_listed_with_their_state(operator, managed):
    managed.live["broken"] = 0
    digits, broken = operator.get("/models").json["models"]

    assert digits == operator.get("/models/digits").json
    assert (digits["is_ready"], digits["waiting"], digits["capacity"]) == (True, 3, 1024)
    assert digits["replicas"] == [
        {"index": 0, "state": "serving", "reason": "exited with -9", "pid": 42, "restarts": 2}
    ]
    assert (broken["is_ready"], broken["reason"], broken["waiting"]) == (False, "no file", 0)


def test_crashes_are_shown_whole(operator):
    (report,) = operator.get("/crashes").json["crashes"]

    assert (report["model"], report["signal"], report["request_ids"]) == (
        "digits", "SIGKILL", ["r-1"],
    )  # fmt: skip


def test_metrics_are_shown(operator):
    assert "flask_exporter_info" in operator.get("/metrics").text


def test_reload_is_asked_for(operator, managed):
    answer = operator.post("/reload")

    assert (answer.status_code, managed.asked) == (202, 1)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/models/nope", 404),
        ("GET", "/reload", 405),
        ("POST", "/models", 405),
        ("POST", "/digits/predict", 404),
        ("GET", "/docs", 404),
        ("GET", "/ping", 200),
        ("GET", "/", 200),
    ],
)
def test_there_is_nothing_else(operator, method, path, status):
    answer = operator.open(path, method=method)

    assert answer.status_code == status
    assert answer.content_type.startswith("application/")


@pytest.mark.parametrize("path", ["/models", "/models/digits", "/crashes", "/reload"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_main_listener_has_none_of_it(client, method, path):
    assert client.open(path, method=method).status_code == 404
