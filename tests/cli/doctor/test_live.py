# SPDX-License-Identifier: Apache-2.0
"""``servekit doctor`` of a running server, and what the command prints."""

import json
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from servekit.cli.doctor import live
from servekit.cli.doctor.live_server import LiveServer
from servekit.cli.server.connection import ManagedServer, NoServer
from servekit.cli.server.finding import given_options
from servekit.ipc.crash_reports import CrashReport
from servekit.ipc.model_counters import GAUGES, LENGTH, PLACES, Label, key_of
from servekit.ipc.operations import FAILED, Swap
from servekit.ipc.table import ReplicaRow, StageRow
from servekit.settings import Settings
from tests.cli.conftest import *  # noqa: F403 - the fixtures
from tests.web.fakes import ends, model_row


@pytest.fixture
def well(server):
    server.crashes = list
    return server


@pytest.fixture
def examine(ask):
    """Return ``examine(*words)``: exit status, and the findings of each check."""

    def run(*words):
        status, out, _ = ask("doctor", "--json", *words)
        rows = json.loads(out)["checks"]
        texts = {row["check"]: [each["text"] for each in row["findings"]] for row in rows}
        return status, {name: found for name, found in texts.items() if found}

    return run


def test_a_server_that_is_well(well, ask):
    status, out, _ = ask("doctor", "--verbose")

    assert status == 0
    assert "ok       queues: full queues\n" in out
    assert out.endswith("10 checks: 0 errors, 0 warnings, 0 remarks\n")


def test_why_it_is_unhealthy(well, examine):
    well.broken = {"digits": ["no model is called other"]}

    assert examine() == (2, {"health": ["digits: no model is called other"]})


def test_replicas_that_failed_or_were_replaced(well, examine):
    digits, echo = well.table.models
    digits.replicas[0].state, digits.replicas[0].reason = "failed", "Segmentation fault"
    echo.replicas[0].generation = 3
    status, found = examine()

    assert status == 2
    assert found["failed replicas"] == ["digits/0: failed too often, Segmentation fault"]
    assert found["restarts"] == ["echo/0: 2 restarts since the server started"]


def crash(moment, served_s=1.0):
    time = moment.isoformat(timespec="milliseconds")
    return CrashReport(
        model="digits", replica=0, time=time, monotonic_s=0.0, cause="killed", served_s=served_s
    )


def test_a_failed_load_is_not_a_crash(well, examine):
    well.crashes = lambda: [crash(datetime.now(UTC), served_s=None)] * 5

    assert examine() == (0, {})


def test_a_replica_that_failed_is_named_once(well, examine):
    replica = well.table.models[0].replicas[0]
    replica.state, replica.reason = "failed", "Segmentation fault"
    well.crashes = lambda: [crash(datetime.now(UTC))] * 5

    assert examine() == (
        2, {"failed replicas": ["digits/0: failed too often, Segmentation fault"]}
    )  # fmt: skip


def test_a_fix_names_the_server_that_was_examined(well, ask, url):
    well.crashes = lambda: [crash(datetime.now(UTC))]
    well.broken = {"digits": ["it is gone"]}
    _, out, _ = ask("doctor")

    assert f" fix: servekit crashes --model digits --server {url}\n" in out
    assert f"servekit logs --level warning --server {url}; servekit models --server" in out


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, ""),
        ({"run_dir": "/a b", "pid": 7}, " --run-dir '/a b' --pid 7"),
        ({"server": "http://h:1"}, " --server http://h:1"),
    ],
)
def test_options_that_find_the_same_server(given, options):
    parsed = Namespace(**{"run_dir": None, "pid": None, "server": None} | given)

    assert given_options(parsed) == options


@pytest.mark.parametrize(
    ("count", "age", "status"),
    [(1, timedelta(), 1), (3, timedelta(), 2), (3, timedelta(hours=1), 0)],
    ids=["one crash", "a loop", "long ago"],
)
def test_crashes_of_the_last_minutes(well, examine, count, age, status):
    well.crashes = lambda: [crash(datetime.now(UTC) - age)] * count
    found_status, found = examine()

    assert found_status == status
    assert ("crash loops" in found) == bool(status)


def wait_in(server, label, count):
    """Have *count* tasks wait in the queue of *label*."""
    server.share.take(key_of(label), LENGTH, GAUGES)[PLACES["waiting"]] = count


@pytest.mark.parametrize(("waiting", "status"), [(100, 0), (900, 1), (1024, 2)])
def test_a_full_queue(well, examine, waiting, status):
    wait_in(well, Label("digits", "1.0"), waiting)

    assert examine()[0] == status


@pytest.fixture
def pipeline(well):
    """A server with a model of two stages, whose second version has one."""
    row, _ = well.table.models
    rows = [ReplicaRow(0, 1, "/run/0.sock", "serving", stage=stage) for stage in ("a", "b", "b")]
    row.stages, row.replicas = [StageRow(name, 1, 0.0, 1.0) for name in ("a", "b")], rows
    row.versions = [model_row("digits", version="2.0")]
    well.live |= {"digits:a": 1, "digits:b": 2}
    return well


@pytest.mark.parametrize(
    ("label", "text", "fix"),
    [
        (
            Label("digits:b", "1.0"),
            "digits: 900 of 1024 places in the queue of stage b are taken",
            "servekit scale digits 3 --stage b",
        ),
        (
            Label("digits", "2.0"),
            "digits/2.0: 900 of 1024 places in the queue are taken",
            "servekit scale digits 2 --version 2.0",
        ),
    ],
    ids=["a stage", "another version"],
)
def test_a_full_queue_of_a_stage_or_a_version(pipeline, ask, url, label, text, fix):
    wait_in(pipeline, label, 900)
    _, out, _ = ask("doctor")

    assert f" queues: {text}\n" in out
    assert f" fix: {fix} --server {url}\n" in out


def test_queues_that_are_full_only_together(pipeline, examine):
    for label in (Label("digits:a", "1.0"), Label("digits:b", "1.0"), Label("digits", "2.0")):
        wait_in(pipeline, label, 500)

    assert examine() == (0, {})


def test_each_front_end_has_a_queue(well, examine, ask):
    well.settings = Settings(front_ends=2)
    wait_in(well, Label("digits", "1.0"), 1024)

    assert examine() == (0, {})
    assert " 1024/2048 " in ask("status")[1]


@pytest.mark.parametrize(("refused", "status"), [(0, 0), (50, 1)])
def test_requests_that_were_refused(well, examine, refused, status):
    family = CounterMetricFamily("servekit_requests", "", labels=["model", "version", "status"])
    family.add_metric(["digits", "1.0", "200"], 1000)
    family.add_metric(["digits", "1.0", "429"], refused)
    well.series = [family]
    found_status, found = examine()

    assert found_status == status
    text = "digits: 50 of 1050 requests were refused (429, 503)"
    assert found.get("refusals", []) == ([text] if refused else [])


def test_the_stage_that_refused_requests_have_waited_for(well, ask, url):
    requests = CounterMetricFamily("servekit_requests", "", labels=["model", "version", "status"])
    requests.add_metric(["digits", "1.0", "429"], 50)
    labels = ["model", "version", "stage"]
    waited = HistogramMetricFamily("servekit_stage_queue_duration_seconds", "", labels=labels)
    for version, stage, waited_s in (("1.0", "a", 3.0), ("1.0", "b", 2.0), ("2.0", "b", 2.0)):
        waited.add_metric(["digits", version, stage], [("+Inf", 1.0)], waited_s)
    well.series = [requests, waited]
    _, out, _ = ask("doctor")

    assert "Requests wait longest for stage b." in out
    here = f"--server {url}"
    assert f" fix: servekit top {here}; servekit scale digits N --stage b {here}\n" in out


def test_little_memory_and_workers_that_are_swapped_out(monkeypatch, tmp_path):
    server = ManagedServer(shown="", address="", connect=lambda: None, run_dir=tmp_path)
    replica = {"index": 0, "pid": 7, "memory_bytes": 1 << 30}
    looked = LiveServer(server)
    looked.models = [{"name": "digits", "versions": [], "replicas": [replica]}]
    monkeypatch.setattr(live, "available_bytes", lambda: 1 << 40)
    monkeypatch.setattr(live, "_swapped", lambda pid: 0)
    assert list(live.pressure(looked)) == []

    monkeypatch.setattr(live, "available_bytes", lambda: 1 << 20)
    monkeypatch.setattr(live, "_swapped", lambda pid: 1 << 26)
    assert [each.text for each in live.pressure(looked)] == [
        "workers use 1.1 GB, and 1.0 MB of memory are left",
        "digits/0: 67.1 MB of its memory are swapped out",
    ]


def test_a_server_of_another_version(well, examine, monkeypatch):
    monkeypatch.setattr(live, "__version__", "99.0")
    status, found = examine()

    assert (status, list(found)) == (1, ["server version"])


def test_a_clock_that_is_wrong(well, examine, monkeypatch):
    late = format_datetime(datetime.now(UTC) - timedelta(minutes=2), usegmt=True)
    monkeypatch.setattr(ManagedServer, "date", lambda self: late)
    status, found = examine()

    assert (status, list(found)) == (1, ["clock"])


def test_a_server_that_ends_meanwhile_is_said_once(well, examine, monkeypatch):
    def gone(_server, _path):
        raise NoServer("it does not answer")

    monkeypatch.setattr(ManagedServer, "text", gone)

    assert examine() == (2, {"refusals": ["it does not answer"]})


def test_an_operation_that_failed(well, examine):
    well.begin_operation("o1", Swap(model="digits", version="2.0"))
    ends(FAILED, error="too many errors")(well.table.operations[-1])

    assert examine() == (1, {"operations": ["swap of digits failed: too many errors"]})


def test_findings_are_printed_with_their_fix(well, ask, url):
    wait_in(well, Label("digits", "1.0"), 1024)
    status, out, _ = ask("doctor")

    assert status == 2
    assert out.splitlines() == [
        "error    queues: digits: 1024 of 1024 places in the queue are taken",
        "         Requests wait long, and are refused with a 429 when it is full.",
        f"         fix: servekit scale digits 2 --server {url}",
        "10 checks: 1 error, 0 warnings, 0 remarks",
    ]
