# SPDX-License-Identifier: Apache-2.0
"""``promtool`` checks the rules, and plays series that make each alert fire, or nearly."""

import json
import shutil
import subprocess
from dataclasses import dataclass

import pytest
from servekit_dashboards.alerts import ALERTS
from servekit_dashboards.files import Targets, files

PROMTOOL = shutil.which("promtool")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed"),
]

OF_SERVER = 'job="servekit", instance="a:8080"'
OF_MODEL = f'{OF_SERVER}, model="m", version="1"'
DAY = 24 * 60
LONG = 6 * 60  #: minutes after which rules are evaluated less often, to be done sooner


@dataclass
class Played:
    """Series of one sample a minute: an alert fires *at* a minute, or is quiet."""

    at: int
    fires: dict[str, str]
    quiet: dict[str, str]


def up(value):
    return {f"up{{{OF_SERVER}}}": f"{value}x60"}


def replicas(**states):
    return {
        f'servekit_replicas{{{OF_MODEL}, state="{state}"}}': f"{count}x60"
        for state, count in states.items()
    }


def ready(value):
    return {f"servekit_model_ready{{{OF_MODEL}}}": f"{value}x60"}


def requests(**by_status):
    """Return counters that grow by so many a minute."""
    return {
        f'servekit_requests_total{{{OF_MODEL}, status="{status[1:]}"}}': f"0+{rate}x1500"
        for status, rate in by_status.items()
    }


def crashes(cause, values):
    return {f'servekit_crashes_total{{{OF_MODEL}, cause="{cause}"}}': values}


def histogram(name, fast, slow):
    """Return the buckets of a histogram: so many a minute are fast, and so many slow."""
    return {
        f'{name}_bucket{{{OF_MODEL}, le="0.01"}}': fast,
        f'{name}_bucket{{{OF_MODEL}, le="1.0"}}': slow,
        f'{name}_bucket{{{OF_MODEL}, le="+Inf"}}': slow,
    }


def slower(name):
    """Return a histogram that is slow after a day; the other one is slow all the time."""
    return (
        histogram(name, f"0+60x{DAY} {DAY * 60}+0x60", f"0+60x{DAY + 60}"),
        histogram(name, f"0x{DAY + 60}", f"0+60x{DAY + 60}"),
    )


def batches(queue_s, predict_s, full, others):
    """Return counters that grow by so much a minute."""
    name = f"servekit_batches_total{{{OF_MODEL}"
    return {
        f"servekit_queue_duration_seconds_sum{{{OF_MODEL}}}": f"0+{queue_s}x60",
        f"servekit_predict_duration_seconds_sum{{{OF_MODEL}}}": f"0+{predict_s}x60",
        f'{name}, reason="full"}}': f"0+{full}x60",
        f'{name}, reason="worker_idle"}}': f"0+{others}x60",
    }


def memory(kind, values):
    return {f'servekit_replica_memory_bytes{{{OF_MODEL}, replica="0", kind="{kind}"}}': values}


def streams(cancelled, begun):
    return {
        f"servekit_streams_cancelled_total{{{OF_MODEL}}}": f"0+{cancelled}x60",
        f"servekit_first_output_seconds_count{{{OF_MODEL}}}": f"0+{begun}x60",
    }


def expired(rate):
    name = f'servekit_tasks_dropped_total{{{OF_MODEL}, reason="expired"}}'
    return {name: f"0+{rate}x60", **requests(_200=60)}


def operations(result):
    return {f'servekit_operations_total{{{OF_SERVER}, kind="swap", result="{result}"}}': "0x5 1x20"}


def reloads(result):
    return {f'servekit_reloads_total{{{OF_SERVER}, result="{result}"}}': "0x5 1x20"}


REQUEST, FIRST = "servekit_request_duration_seconds", "servekit_first_output_seconds"
ASLEEP = {f"servekit_model_asleep{{{OF_MODEL}}}": "1x60"}
GROWING = f"1e9+0x360 {2e9:.0f}+0x120"
PLAYED = {
    "ServekitServerDown": Played(3, up(0), up(1)),
    "ServekitServerRestarts": Played(
        20,
        {f"servekit_start_time_seconds{{{OF_SERVER}}}": "1x4 2x4 3x4 4x20"},
        {f"servekit_start_time_seconds{{{OF_SERVER}}}": "1x4 2x4 3x30"},
    ),
    "ServekitModelUnavailable": Played(
        3, ready(0) | replicas(serving=1, failed=1), ready(0) | ASLEEP
    ),
    "ServekitReplicasFailing": Played(
        6, replicas(serving=1, failed=1), replicas(serving=1, starting=1)
    ),
    "ServekitErrors": Played(15, requests(_200=54, _500=6), requests(_200=58, _500=2, _422=40)),
    "ServekitWorkersCrash": Played(10, crashes("signal", "0x5 1x20"), crashes("signal", "1x30")),
    "ServekitCrashLoop": Played(15, crashes("exited", "0+1x30"), crashes("exited", "0x5 2x20")),
    "ServekitOutOfMemory": Played(
        20, crashes("out_of_memory", "0x5 1x40"), crashes("signal", "0x5 1x40")
    ),
    "ServekitMemoryGrows": Played(430, memory("private", GROWING), memory("shared", GROWING)),
    "ServekitQueueFull": Played(15, requests(_200=50, _429=10), requests(_200=60, _503=1)),
    "ServekitSaturated": Played(30, batches(60, 20, 59, 1), batches(60, 20, 30, 30)),
    "ServekitDeadlinesExpire": Played(15, expired(6), expired(0.1)),
    "ServekitLatencyUp": Played(
        DAY + 25,
        slower(REQUEST)[0] | requests(_200=60),
        slower(REQUEST)[1] | requests(_200=60),
    ),
    "ServekitFirstOutputSlow": Played(DAY + 25, *slower(FIRST)),
    "ServekitStreamsCancelled": Played(30, streams(40, 60), streams(10, 60)),
    "ServekitReloadFailed": Played(10, reloads("failed"), reloads("unchanged")),
    "ServekitOperationFailed": Played(10, operations("failed"), operations("done")),
}


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    path = tmp_path_factory.mktemp("rules") / "servekit.yml"
    path.write_text(files(Targets("servekit", ["a:8080"]))["rules/servekit.yml"])
    return path


def promtool(*arguments):
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout + done.stderr


def test_the_rules_are_valid(rules):
    status, said = promtool("check", "rules", str(rules))

    assert status == 0, said
    assert "SUCCESS" in said


def test_the_configuration_of_prometheus_is_valid(rules, tmp_path):
    for path, text in files(Targets("servekit", ["a:8080"])).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    status, said = promtool("check", "config", str(tmp_path / "prometheus.yml"))

    assert status == 0, said


def test_every_alert_is_played():
    assert list(PLAYED) == [alert.name for alert in ALERTS]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each.name)
def test_it_fires_when_it_has_to_and_not_otherwise(alert, rules, tmp_path):
    played = PLAYED[alert.name]
    # without exp_alerts, promtool asserts that nothing fires: so one that fires is a failure
    for series, fires in ((played.fires, True), (played.quiet, False)):
        status, said = play(tmp_path, rules, alert.name, played.at, series)
        assert ("got:[" in said.replace(" ", "").replace("\n", "")) == fires, said
        assert (status != 0) == fires, said
        assert not fires or f'alertname="{alert.name}"' in said


def play(directory, rules, name, minute, series):
    """Return the exit status and the words of promtool, which expects that *name* is silent."""
    test = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m" if minute < LONG else "5m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": key, "values": text} for key, text in series.items()],
                "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name}],
            }
        ],
    }
    path = directory / "test.yml"
    path.write_text(json.dumps(test))
    return promtool("test", "rules", str(path))
