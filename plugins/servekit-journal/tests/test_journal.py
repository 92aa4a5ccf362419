# SPDX-License-Identifier: Apache-2.0
"""Events become lines of JSON; without a file there is no hook."""

import json
import os
import stat
import subprocess
import sys

import pytest
from servekit_journal.journal import JournalFile

from servekit.extension import LogRecord, MetricFamily, MetricSample, WorkerReady

READY = WorkerReady(
    time_s=1.5, model="m", version="1", stage="", replica=0, generation=2, pid=7, load_s=0.25
)
LINE = LogRecord(time_s=2.5, level="info", name="output", subject="m/0", text="h\u00e9llo\u2028")


def lines_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_each_event_is_a_line(tmp_path):
    path = tmp_path / "journal"
    JournalFile(path).write(READY)
    JournalFile(path).write(LINE, LINE)
    ready, line, again = lines_of(path)

    assert (ready["event"], ready["generation"], ready["load_s"]) == ("worker_ready", 2, 0.25)
    assert (line["event"], line["text"]) == ("log_record", "h\u00e9llo\u2028")
    assert again == line
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_metrics_are_one_line(tmp_path):
    path = tmp_path / "journal"
    sample = MetricSample("servekit_requests_total", {"model": "m"}, 3.0)
    JournalFile(path).write_metrics([MetricFamily("servekit_requests", "counter", "h", [sample])])
    (line,) = lines_of(path)

    assert line["samples"] == [
        {"name": "servekit_requests_total", "labels": {"model": "m"}, "value": 3.0}
    ]


def look(code, **environment):
    """Return what *code* prints about the hook module."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("JOURNAL_")}
    command = [sys.executable, "-c", f"import sys, servekit_journal.hooks as hooks; {code}"]
    return subprocess.check_output(command, text=True, env=kept | environment).strip()


HOOKS = (
    "print(*sorted(name for name, value in vars(hooks).items() if hasattr(value, 'servekit_impl')))"
)
LIFE = (
    "batch_served model_loaded model_unloaded server_started server_stopping worker_exited "
    "worker_ready"
)


@pytest.mark.parametrize(
    ("environment", "hooks"),
    [
        pytest.param({}, "", id="no file named"),
        pytest.param({"JOURNAL_FILE": "", "JOURNAL_ALSO": "logs"}, "", id="named by nothing"),
        pytest.param({"JOURNAL_FILE": "/j"}, LIFE, id="file named"),
        pytest.param(
            {"JOURNAL_FILE": "/j", "JOURNAL_ALSO": "traces"},
            " ".join(sorted([*LIFE.split(), "request_traced"])),
            id="traces of slow requests",
        ),
        pytest.param(
            {"JOURNAL_FILE": "/j", "JOURNAL_ALSO": "traces", "JOURNAL_TRACES": "0.5"},
            " ".join(sorted([*LIFE.split(), "request_traced", "trace_sampler"])),
            id="traces of half of the requests",
        ),
        pytest.param(
            {"JOURNAL_FILE": "/j", "JOURNAL_ALSO": "logs metrics"},
            " ".join(sorted([*LIFE.split(), "export_logs", "export_metrics"])),
            id="everything",
        ),
    ],
)
def test_hooks_are_there_only_where_a_file_is_named(environment, hooks):
    assert look(HOOKS, **environment) == hooks


def test_importing_the_hook_module_imports_nothing_heavy():
    loaded = look("print(*sys.modules)", JOURNAL_FILE="/j").split()

    assert not {"numpy", "flask", "gevent", "msgspec", "servekit_journal.journal"} & set(loaded)
