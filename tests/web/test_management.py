# SPDX-License-Identifier: Apache-2.0
"""What the management listener shows, and that the main one shows none of it."""

import os

import pytest

from servekit.errors import RouteNotFound
from servekit.ipc.crash_reports import CrashReport
from servekit.ipc.kept_log import LogEntry
from servekit.ipc.model_counters import GAUGES, LENGTH, PLACES, Label, key_of
from servekit.ipc.table import ReplicaRow, SettingRow, TrafficRow
from servekit.web import RouteMetrics, create_management

from .fakes import FakeOperated, model_row

PID = os.getpid()
USED = ("cpu_s", "memory_bytes")
REPORT = CrashReport(
    model="digits", replica=0, generation=1, pid=7, time="2026-01-01T00:00:00Z", monotonic_s=1.0,
    exit_code=-9, signal="SIGKILL", cause="killed from outside", lived_s=2.0, served_s=1.0,
    restart_s=0.0, has_given_up=False, request_ids=["r-1"], last_lines=["bye"],
)  # fmt: skip


class Managed(FakeOperated):
    """A front-end whose operator looks."""

    asked = 0

    def crashes(self):
        return [REPORT]

    def crash(self, number):
        if number != 1:
            raise RouteNotFound(f"there is no crash report {number}")
        return REPORT

    def ask_reload(self):
        self.asked += 1


@pytest.fixture
def managed():
    replica = ReplicaRow(0, 3, "/run/x.sock", "serving", "exited with -9", pid=PID)
    return Managed(model_row("digits", replicas=[replica]), model_row("broken", reason="no file"))


@pytest.fixture
def operator(managed):
    return create_management(managed, RouteMetrics(managed)).test_client()


def test_models_are_listed_with_their_state(operator, managed):
    managed.live["broken"] = 0
    counted = managed.share.take(key_of(Label("digits", "1.0")), LENGTH, GAUGES)
    counted[PLACES["waiting"]] = 3
    digits, broken = operator.get("/models").json["models"]

    assert (digits["is_ready"], digits["waiting"], digits["capacity"]) == (True, 3, 1024)
    assert digits["replicas"] == [
        {"index": 0, "state": "serving", "reason": "exited with -9", "pid": PID, "restarts": 2}
        | {name: digits["replicas"][0][name] for name in USED}
    ]
    assert (broken["is_ready"], broken["reason"], broken["waiting"]) == (False, "no file", 0)


def test_what_a_worker_uses_is_shown_while_it_runs(operator, managed):
    (replica,) = operator.get("/models/digits").json["replicas"]
    managed.table.models[0].replicas[0].pid = 2**22 + 1  # larger than any
    (dead,) = operator.get("/models/digits").json["replicas"]

    assert 0 < replica["cpu_s"] < 1000
    assert 10 << 20 < replica["memory_bytes"] < 1 << 33
    assert [dead[name] for name in USED] == [None, None]


def test_versions_traffic_and_settings_of_one_model(operator, managed):
    row = managed.table.models[0]
    row.versions = [model_row("digits", version="2.0"), model_row("digits", replicas=[])]
    row.traffic = TrafficRow(aliases={"canary": "2.0"}, weights={"1.0": 90, "2.0": 10})
    row.settings = [SettingRow("replicas", 1, "servekit.toml")]
    digits = operator.get("/models/digits").json

    assert [(each["version"], each["is_ready"]) for each in digits["versions"]] == [
        ("2.0", True), ("1.0", False),
    ]  # fmt: skip
    assert digits["traffic"]["aliases"] == {"canary": "2.0"}
    assert digits["traffic"]["weights"] == {"1.0": 90, "2.0": 10}
    assert digits["settings"] == [{"name": "replicas", "value": 1, "source": "servekit.toml"}]
    assert "settings" not in operator.get("/models").json["models"][0]


def test_crashes_are_shown_whole(operator):
    (report,) = operator.get("/crashes").json["crashes"]

    assert (report["model"], report["signal"], report["request_ids"]) == (
        "digits", "SIGKILL", ["r-1"],
    )  # fmt: skip


def test_one_crash_is_shown_by_its_number(operator):
    found, missing = operator.get("/crashes/1"), operator.get("/crashes/2")

    assert (found.status_code, found.json["request_ids"]) == (200, ["r-1"])
    assert (missing.status_code, missing.json["detail"]) == (404, "there is no crash report 2")


def lines(*subjects):
    return [LogEntry("2026", "info", "output", subject, "hello") for subject in subjects]


@pytest.mark.parametrize(
    ("query", "subjects"),
    [
        ("", ["servekit", "digits/0", "digits", "digits-2"]),
        ("?model=digits", ["digits/0", "digits"]),
        ("?limit=1", ["digits-2"]),
        ("?limit=0", []),
        ("?after=3", ["digits-2"]),
        ("?after=4", []),
        ("?after=4&run=run-1", []),
        ("?after=4&run=run-0&limit=1", ["digits-2"]),
    ],
)
def test_the_last_lines_of_the_log(operator, managed, query, subjects):
    managed.log = lines("servekit", "digits/0", "digits", "digits-2")
    page = operator.get(f"/logs{query}").json

    assert [line["subject"] for line in page["lines"]] == subjects
    assert page["next"] == 4


@pytest.mark.parametrize(
    ("query", "times"),
    [
        ("level=warning", ["2026-11-21T10:00:01.000+00:00"]),
        ("since=2026-11-21T11:00:01%2B01:00", ["2026-11-21T10:00:01.000+00:00"]),
        ("since=2026-11-22T00:00Z", []),
    ],
)
def test_records_of_a_level_and_since_a_time(operator, managed, query, times):
    managed.log = [
        LogEntry("2026-11-21T10:00:00.000+00:00", "info", "output", "digits/0", "one"),
        LogEntry("2026-11-21T10:00:01.000+00:00", "error", "output", "digits/0", "two"),
    ]
    page = operator.get(f"/logs?{query}").json

    assert [line["time"] for line in page["lines"]] == times


def test_a_reader_of_the_log_waits_for_a_line(operator, managed, monkeypatch):
    def sleep(_seconds):
        managed.log += lines("digits/0" if managed.log else "echo/0")

    monkeypatch.setattr("servekit.web.logs.time.sleep", sleep)
    page = operator.get("/logs?model=digits&wait=60").json

    assert [line["subject"] for line in page["lines"]] == ["digits/0"]


@pytest.mark.parametrize(
    "query",
    [
        *("after=x", "after=inf", "limit=-1", "limit=Infinity", "wait=soon", "level=loud"),
        *("since=now", "since=0001-01-01T00:00:00%2B14:00", "since=9999-12-31T23:59:59-14:00"),
    ],
)
def test_parameters_of_the_log_are_checked(operator, query):
    assert operator.get(f"/logs?{query}").status_code == 400


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
        ("PATCH", "/models", 405),
        ("GET", "/models/digits/swap", 405),
        ("POST", "/digits/predict", 404),
        ("GET", "/docs", 404),
        ("GET", "/ping", 200),
        ("GET", "/", 200),
        ("GET", "/openapi.json", 200),
    ],
)
def test_there_is_nothing_else(operator, method, path, status):
    answer = operator.open(path, method=method)

    assert answer.status_code == status
    assert answer.content_type.startswith("application/")


@pytest.mark.parametrize(
    "path", ["/models", "/models/digits", "/operations", "/crashes", "/reload"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_main_listener_has_none_of_it(client, method, path):
    assert client.open(path, method=method).status_code == 404
