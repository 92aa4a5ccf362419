# SPDX-License-Identifier: Apache-2.0
"""The metrics of MMS: made of those of the server, and written to the log, CSV or CloudWatch."""

import csv
import json
import logging

import pytest
from servekit_mms.host import HostMetrics
from servekit_mms.log_file import LogFile, rotation_of
from servekit_mms.metrics import MetricsReporter, Row, Totals
from servekit_mms.sinks import sink_of

from servekit.extension import LogRecord, MetricFamily, MetricSample


def family(*samples):
    found = [MetricSample(name=name, labels=labels, value=value) for name, labels, value in samples]
    return [MetricFamily(name="x", kind="counter", help="", samples=found)]


def counted(good=0, wrong=0, failed=0, seconds=0.0, steps=0.0, pings=0):
    every = good + wrong + failed
    requests = [("200", good), ("422", wrong), ("500", failed)]
    model = {"model": "a", "version": "1.0"}
    step = {**model, "replica": "0", "step": "preprocess"}
    return family(
        *(("servekit_requests_total", {**model, "status": s}, n) for s, n in requests),
        ("servekit_request_duration_seconds_count", model, every),
        ("servekit_request_duration_seconds_sum", model, seconds),
        ("servekit_predict_duration_seconds_count", model, every),
        ("servekit_predict_duration_seconds_sum", model, seconds / 2),
        ("servekit_model_mms_step_seconds_count", step, every),
        ("servekit_model_mms_step_seconds_sum", step, steps),
        ("flask_http_request_duration_seconds_count", {"rule": "/ping"}, pings),
        ("servekit_mms_descriptions_total", {}, 1),
    )


def test_counts_are_those_since_the_last_time_and_latencies_their_averages():
    before = Totals(counted(good=10, seconds=1.0, steps=0.5, pings=3))
    now = Totals(counted(good=12, wrong=1, failed=1, seconds=1.4, steps=0.58, pings=5))
    rows = list(now.rows(before))

    assert [(row.name, row.unit, row.model) for row in rows] == [
        ("PredictionTotal", "count", "a"),
        ("Prediction4XX", "count", "a"),
        ("Prediction5XX", "count", "a"),
        ("LatencyOverall", "ms", "a"),
        ("LatencyInference", "ms", "a"),
        ("LatencyPreprocess", "ms", "a"),
        ("PingTotal", "count", ""),
        ("APIDescriptionTotal", "count", ""),
    ]
    values = [row.value for row in rows]
    assert values == pytest.approx([4, 1, 1, 100, 50, 20, 2, 0])


def test_a_model_without_requests_has_no_latency_and_a_worker_that_begins_anew_no_negative_count():
    rows = {row.name: row.value for row in Totals(counted(good=2)).rows(Totals(counted(good=5)))}

    assert rows["PredictionTotal"] == 0
    assert not [name for name in rows if name.startswith("Latency")]


def test_they_are_reported_once_a_minute_and_at_the_end():
    reports, now = [], [0.0]
    reporter = MetricsReporter(lambda *report: reports.append(report), clock=lambda: now[0])
    for now[0] in (10.0, 59.0, 61.0, 70.0):
        reporter.take(counted(good=int(now[0])))
    reporter.report()
    reporter.report()

    totals = [{row.name: row for row in rows} for _, _, rows in reports]
    assert [found["PredictionTotal"].value for found in totals] == [61, 9]
    assert {"CPUUtilization", "MemoryUsed", "DiskUtilization"} <= set(totals[0])


def test_the_machine_is_read_under_the_names_of_mms(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 4096 kB\nMemFree: 1 kB\nMemAvailable: 1024 kB\n")
    (tmp_path / "stat").write_text("cpu 10 0 10 70 10 0 0 0 5 0\ncpu0 1\n")
    host = HostMetrics(tmp_path)
    (tmp_path / "stat").write_text("cpu 25 0 20 140 15 0 0 0 9 0\ncpu0 1\n")
    found = host.read()

    assert found["CPUUtilization"] == (25.0, "percent")
    assert found["MemoryUsed"] == (3.0, "MB")
    assert found["MemoryAvailable"] == (1.0, "MB")
    assert found["MemoryUtilization"] == (75.0, "percent")
    assert set(found) == {
        "CPUUtilization", "MemoryUsed", "MemoryAvailable", "MemoryUtilization",
        "DiskUsed", "DiskAvailable", "DiskUtilization",
    }  # fmt: skip
    assert found["DiskUsed"][1] == "GB"


COUNT = 1_234_567
ROWS = [Row("PredictionTotal", COUNT, "count", "a"), Row("CPUUtilization", 12.3456789, "percent")]


def test_the_log_has_a_line_for_each(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "servekit_mms.metrics"):
        sink_of("log", tmp_path)(0.0, "h", ROWS)

    assert caplog.messages == [
        "metric PredictionTotal of a: 1234567 count",
        "metric CPUUtilization: 12.3457 percent",
    ]


def test_csv_has_a_file_for_each_name(tmp_path):
    sink = sink_of("csv", tmp_path / "metrics")
    sink(0.0, "h", ROWS)
    sink(60.0, "h", ROWS)

    with (tmp_path / "metrics" / "mms_PredictionTotal.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["timestamp", "host", "model_name", "value", "unit"],
            ["1970-01-01T00:00:00Z", "h", "a", "1234567", "count"],
            ["1970-01-01T00:01:00Z", "h", "a", "1234567", "count"],
        ]
    assert (tmp_path / "metrics" / "mms_CPUUtilization.csv").exists()


def test_cloudwatch_gets_its_embedded_format(tmp_path):
    sink_of("cloudwatch", tmp_path)(60.0, "h", ROWS)
    model, host = map(json.loads, (tmp_path / "mms_cloudwatch.log").read_text().splitlines())

    assert model == {
        "_aws": {
            "Timestamp": 60_000,
            "CloudWatchMetrics": [
                {
                    "Namespace": "MXNetModelServer",
                    "Dimensions": [["host", "model_name"]],
                    "Metrics": [{"Name": "PredictionTotal", "Unit": "Count"}],
                }
            ],
        },
        "host": "h",
        "model_name": "a",
        "PredictionTotal": COUNT,
    }
    assert host["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["host"]]


# ------------------------------------------------------------ the log file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 H", (1, "H")), ("30 m", (30, "M")), ("midnight", (1, "MIDNIGHT")), ("W0", (1, "W0")),
        ("2 D", (2, "D")), ("H", (1, "H")),
    ],
)  # fmt: skip
def test_intervals_are_those_of_mms(text, expected):
    assert rotation_of(text) == expected


@pytest.mark.parametrize("text", ["", "1", "0 H", "1 Y", "W7", "H 1", "1.5 H"])
def test_other_intervals_are_refused(text):
    with pytest.raises(ValueError, match="is not an interval"):
        rotation_of(text)


def record(text, level="info", time_s=0.0):
    return LogRecord(
        time_s=time_s, level=level, name="servekit", subject="a/0", text=text, fields={}
    )


def test_the_log_file_has_lines_from_a_level_on_and_is_rotated(tmp_path):
    path = tmp_path / "mms_app.log"
    file = LogFile(path, "1 S", "warning")
    file.write([record("is ready"), record("crashed", "error", 1e9)])
    file.handler.rolloverAt = 0  # as if the second were over
    file.write([record("slow", "warning", 1e9 + 5)])
    file.handler.close()

    (rotated,) = tmp_path.glob("mms_app.log.*")
    assert "[ERROR] servekit: a/0 crashed" in rotated.read_text()
    assert "[WARNING] servekit: a/0 slow" in path.read_text()
    assert "ready" not in rotated.read_text() + path.read_text()
