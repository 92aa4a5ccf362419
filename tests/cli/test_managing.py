# SPDX-License-Identifier: Apache-2.0
"""Commands that look at a running server elsewhere."""

import json
import re
from datetime import UTC, datetime

import pytest

from servekit.cli.commands import top
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND, USAGE
from servekit.cli.server.connection import ManagedServer, NoServer
from servekit.cli.server.rates import VersionRates
from servekit.ipc.kept_log import LogEntry
from servekit.ipc.operations import DONE, FAILED, OperationStep, Swap, Unload
from servekit.ipc.table import SettingRow, TrafficRow
from tests.web.fakes import ends, model_row


def test_status_of_a_server_elsewhere(ask, url):
    status, out, _ = ask("status")

    assert status == OK
    assert out.splitlines()[0] == f"{url}: healthy"
    assert json.loads(ask("status", "--json")[1])["server"] == url


def test_status_shows_the_operations_of_the_last_minutes(ask, server):
    server.begin_operation("o1", Swap(model="digits", version="2.0"))
    server.table.operations[-1].steps = [OperationStep("load", DONE), OperationStep("watch")]
    server.begin_operation("o2", Unload(model="echo"))
    ends(FAILED, error="it is the only one\nreally")(server.table.operations[-1])
    lines = [line.split() for line in ask("status")[1].splitlines()]

    assert ["o1", "swap", "digits", "running", "watch"] in lines
    assert ["o2", "unload", "echo", "failed", "it", "is", "the", "only", "one"] in lines


def test_models_show_tells_versions_traffic_and_settings(ask, server):
    row = server.table.models[0]
    row.versions = [model_row("digits", version="2.0", replicas=[])]
    row.traffic = TrafficRow(
        aliases={"canary": "2.0"}, weights={"1.0": 3, "2.0": 1}, sticky="X-User", mirror="2.0"
    )
    row.settings = [SettingRow("replicas", 1, "servekit.toml"), SettingRow("env.A", "b", "--set")]
    status, out, _ = ask("models", "show", "digits")
    lines = [line.split() for line in out.splitlines()]

    assert status == OK
    assert ["1.0", "ready", "1/1", "75", "%", "-"] in lines
    assert ["2.0", "not", "ready", "0/0", "25", "%", "canary"] in lines
    assert ["replicas", "1", "servekit.toml"] in lines
    assert ["env.A", "b", "--set"] in lines
    assert "the header X-User chooses the version" in out
    assert json.loads(ask("models", "show", "digits", "--json")[1])["version"] == "1.0"


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (("models", "show", "nope"), PROBLEM_FOUND, "answers 404: no model is called 'nope'"),
        (("models", "show"), USAGE, "show needs the name of a model"),
        (("crashes", "3"), USAGE, "'3' is not known; one report: servekit crashes show N"),
        (("crashes", "show"), USAGE, "show needs the number of a report"),
    ],
)
def test_models_show_of_nothing(ask, words, status, complaint):
    found, out, error = ask(*words)

    assert (found, out, error.count("\n")) == (status, "", 1)
    assert complaint in error


def test_logs_are_printed_as_the_server_prints_them(ask, server):
    server.log = [
        LogEntry("09:00", "info", "worker_ready", "digits/0", "ready after 0.1 s"),
        LogEntry("09:01", "info", "output", "digits/0", "hello"),
        LogEntry("09:02", "info", "output", "echo/0", "hello"),
    ]

    assert ask("logs", "digits")[:2] == (
        OK, "09:00  digits/0 ready after 0.1 s\n09:01  digits/0 | hello\n",
    )  # fmt: skip
    assert json.loads(ask("logs", "-n", "1", "--json")[1])["subject"] == "echo/0"


def test_a_misspelt_model_has_no_log(ask):
    assert ask("logs", "digit") == (
        PROBLEM_FOUND, "", "servekit: no lines; no model is called 'digit'; models: digits, echo\n",
    )  # fmt: skip
    assert ask("logs", "digits")[1:] == ("", "")


def test_a_traceback_in_the_log_is_printed_in_full(ask, server):
    text = "Traceback (most recent call last):\nValueError: a\n"
    server.log = [LogEntry("09:00", "error", "output", "a/0", "ValueError: a", traceback=text)]

    assert ask("logs")[1] == (
        "09:00  a/0 | Traceback (most recent call last):\n09:00  a/0 | ValueError: a\n"
    )
    assert json.loads(ask("logs", "--json")[1])["traceback"] == text


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (("--level", "warning"), ["new"]),
        (("--since", "10m"), ["new"]),
        (("--since", "2026-01-01"), ["old", "new"]),
        (("--since", "2026-01-01", "-n", "1"), ["new"]),
    ],
)
def test_logs_of_a_level_and_since_a_time(ask, server, words, messages):
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    server.log = [
        LogEntry("2026-01-02T09:00:00.000+00:00", "info", "output", "a/0", "old"),
        LogEntry(now, "warning", "output", "a/0", "new"),
    ]
    out = ask("logs", "--json", *words)[1]

    assert [json.loads(line)["message"] for line in out.splitlines()] == messages


def test_a_time_that_is_none_is_refused(ask):
    status, _, error = ask("logs", "--since", "yesterday")

    assert status != OK
    assert "'yesterday' is not a duration" in error


def test_following_goes_on_with_the_next_server(ask, server, monkeypatch):
    monkeypatch.setattr("servekit.cli.server.log_pages.RETRY_S", 0.0)
    server.log = [LogEntry("09:00", "info", "output", "a/0", "one")]
    get, turns = ManagedServer.get, iter(["serve", "end", "end", "serve", "stop"])

    def more(self, path):
        match next(turns):
            case "stop":
                raise KeyboardInterrupt
            case "end":
                server.log, server.log_run = [LogEntry("09:01", "info", "x", "a", "two")], "run-2"
                raise NoServer("it does not answer")
        return get(self, path)

    monkeypatch.setattr(ManagedServer, "get", more)

    assert ask("logs", "--follow") == (
        OK,
        "09:00  a/0 | one\n09:01  a two\n",
        "servekit: it does not answer; waiting for a server\n",
    )


def test_following_the_log_ends_with_ctrl_c(ask, server, monkeypatch):
    server.log = [LogEntry("09:00", "info", "output", "digits/0", "one")]
    get, asked = ManagedServer.get, []

    def more(self, path):
        asked.append(path)
        if len(asked) == 3:
            raise KeyboardInterrupt
        page = get(self, path)
        server.log.append(LogEntry("09:01", "info", "output", "digits/0", "two"))
        return page

    monkeypatch.setattr(ManagedServer, "get", more)

    assert ask("logs", "--follow")[:2] == (OK, "09:00  digits/0 | one\n09:01  digits/0 | two\n")


def test_top_on_a_pipe_is_printed_once(ask, server):
    head, digits, _ = ask("top", "--interval", "0.01")[1].splitlines()
    (first, _) = json.loads(ask("top", "--interval", "0.01", "--json")[1])

    assert head.split()[:4] == ["model", "version", "replicas", "requests/s"]
    assert digits.split()[:8] == ["digits", "1.0", "1/1", "0.0", "0.0", "-", "-", "0"]
    assert (first["model"], first["requests_per_s"], first["cpu"]) == ("digits", 0.0, 0.0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.0125, "12.5 ms"), (0.9996, "1 s"), (2.5, "2.5 s")]
)
def test_top_shows_long_latencies_in_seconds(seconds, text):
    row = VersionRates(
        model="m", version="1", serving=1, replicas=1, requests_per_s=1.0, errors_per_s=0.0,
        p50_s=seconds, p99_s=seconds, waiting=0, cpu=0.5, memory_bytes=1,
    )  # fmt: skip

    assert f"0.0  {text}  {text}  0" in re.sub(" {2,}", "  ", top._table([row], ()))


def test_crashes_of_a_server_elsewhere(ask):
    assert ask("crashes")[1].startswith("2026  digits/0  killed\n")


def test_a_reload_of_everything_does_not_wait(ask, server):
    status, out, _ = ask("reload")

    assert (status, server.operations) == (OK, ["SIGHUP"])
    assert out.endswith(" is reloading; see its log for the result of each model\n")


@pytest.mark.parametrize("command", ["status", "models", "reload", "crashes"])
def test_a_wrong_token_is_a_problem_of_one_line(ask, monkeypatch, command):
    monkeypatch.setenv("SERVEKIT_MANAGE_TOKEN", "wrong")
    status, out, error = ask(command)

    assert (status, out, error.count("\n")) == (PROBLEM_FOUND, "", 1)
    assert "answers 401: a bearer token is needed; set SERVEKIT_MANAGE_TOKEN" in error


def test_a_token_that_is_none_is_named(ask, monkeypatch):
    monkeypatch.setenv("SERVEKIT_MANAGE_TOKEN", "two lines\nof text")

    assert ask("status")[::2] == (
        PROBLEM_FOUND,
        "servekit: SERVEKIT_MANAGE_TOKEN: not a token of letters, digits and -._~+/\n",
    )


def test_an_address_without_management_is_asked_about(ask, url):
    status, out, error = ask("status", to=f"{url}/elsewhere")

    assert (status, out, error.count("\n")) == (PROBLEM_FOUND, "", 1)
    assert error.endswith("; is this the address of its --manage?\n")


@pytest.mark.parametrize(
    ("to", "complaint"),
    [
        ("localhost:8081", "is not http://HOST:PORT or https://HOST:PORT"),
        ("http://localhost:port", "is not http://HOST:PORT or https://HOST:PORT"),
        ("http://", "names no host"),
        ("http://127.0.0.1:1", "://127.0.0.1:1 does not answer: Connection refused"),
    ],
)
def test_a_url_without_a_server(ask, to, complaint):
    status, out, error = ask("status", to=to)

    assert (status, out, error.count("\n")) == (PROBLEM_FOUND, "", 1)
    assert complaint in error
