# SPDX-License-Identifier: Apache-2.0
"""``servekit doctor`` of a running server, and what the command prints."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from prometheus_client.core import CounterMetricFamily

from servekit.cli.doctor import live
from servekit.cli.server.connection import ManagedServer
from servekit.ipc.crash_reports import CrashReport
from servekit.ipc.operations import FAILED, Swap
from tests.cli.conftest import *  # noqa: F403 - the fixtures
from tests.web.fakes import ends


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
    assert "ok       queues: full queues and refused requests\n" in out
    assert out.endswith("8 checks: 0 errors, 0 warnings, 0 remarks\n")


def test_why_it_is_unhealthy(well, examine):
    well.broken = {"digits": ["no model is called other"]}

    assert examine() == (2, {"health": ["digits: no model is called other"]})


def test_replicas_that_failed_or_were_replaced(well, examine):
    digits, echo = well.table.models
    digits.replicas[0].state, digits.replicas[0].reason = "failed", "Segmentation fault"
    echo.replicas[0].generation = 3
    status, found = examine()

    assert status == 2
    assert found["crash loops"] == ["digits/0: failed too often, Segmentation fault"]
    assert found["restarts"] == ["echo/0: 2 restarts since the server started"]


@pytest.mark.parametrize(
    ("count", "age", "status"),
    [(1, timedelta(), 1), (3, timedelta(), 2), (3, timedelta(hours=1), 0)],
    ids=["one crash", "a loop", "long ago"],
)
def test_crashes_of_the_last_minutes(well, examine, count, age, status):
    time = (datetime.now(UTC) - age).isoformat(timespec="milliseconds")
    report = CrashReport(model="digits", time=time, monotonic_s=0.0, cause="killed")
    well.crashes = lambda: [report] * count
    found_status, found = examine()

    assert found_status == status
    assert ("crash loops" in found) == bool(status)


@pytest.mark.parametrize(("waiting", "status"), [(100, 0), (900, 1), (1024, 2)])
def test_a_full_queue(well, examine, waiting, status):
    well.waiting = lambda: {"digits": waiting}

    assert examine()[0] == status


@pytest.mark.parametrize(("refused", "status"), [(0, 0), (50, 1)])
def test_requests_that_were_refused(well, examine, refused, status):
    family = CounterMetricFamily("servekit_requests", "", labels=["model", "version", "status"])
    family.add_metric(["digits", "1.0", "200"], 1000)
    family.add_metric(["digits", "1.0", "429"], refused)
    well.series = [family]
    found_status, found = examine()

    assert found_status == status
    text = "digits: 50 of 1050 requests were refused (429, 503)"
    assert found.get("queues", []) == ([text] if refused else [])


def test_little_memory_and_workers_that_are_swapped_out(monkeypatch, tmp_path):
    server = ManagedServer(shown="", address="", connect=lambda: None, run_dir=tmp_path)
    replica = {"index": 0, "pid": 7, "memory_bytes": 1 << 30}
    looked = live.LiveServer(server)
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


def test_an_operation_that_failed(well, examine):
    well.begin_operation("o1", Swap(model="digits", version="2.0"))
    ends(FAILED, error="too many errors")(well.table.operations[-1])

    assert examine() == (1, {"operations": ["swap of digits failed: too many errors"]})


def test_findings_are_printed_with_their_fix(well, ask):
    well.waiting = lambda: {"digits": 1024}
    status, out, _ = ask("doctor")

    assert status == 2
    assert out.splitlines() == [
        "error    queues: digits: 1024 of 1024 places in the queue are taken",
        "         Requests wait long, and are refused with a 429 when it is full.",
        "         fix: servekit scale digits 2",
        "8 checks: 1 error, 0 warnings, 0 remarks",
    ]
