# SPDX-License-Identifier: Apache-2.0
"""Commands that ask a running server, against its management app with a made-up supervisor."""

import io
import json
import threading

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from servekit.cli import main
from servekit.cli.output.live_text import LiveText
from servekit.cli.parsing.exit_status import INTERRUPTED, OK, PROBLEM_FOUND, USAGE
from servekit.cli.server import connection
from servekit.cli.server.connection import ManagedServer
from servekit.ipc.crash_reports import CrashReport
from servekit.ipc.kept_log import LogEntry
from servekit.ipc.operations import (
    DONE,
    FAILED,
    Load,
    OperationStep,
    ReloadModels,
    RollBack,
    Scale,
    SetTraffic,
    Swap,
    Unload,
)
from servekit.ipc.table import SettingRow, TrafficRow
from servekit.web import RouteMetrics, create_management
from tests.web.fakes import FakeOperated, model_row

TOKEN = "let-me-in"


class Operated(FakeOperated):
    """A front-end that knows its token, as its listener would."""

    def crashes(self):
        report = {
            "model": "digits", "replica": 0, "generation": 1, "pid": 7, "time": "2026",
            "monotonic_s": 1.0, "exit_code": -9, "signal": "SIGKILL", "cause": "killed",
            "lived_s": 2.0, "served_s": 1.0, "restart_s": 0.0, "has_given_up": False,
            "request_ids": [], "last_lines": [],
        }  # fmt: skip
        return [CrashReport(**report)]

    def ask_reload(self):
        self.operations.append("SIGHUP")


class Quiet(WSGIRequestHandler):
    def log(self, *args):
        """Keep stderr for the command."""


@pytest.fixture
def server():
    return Operated(model_row("digits"), model_row("echo"))


@pytest.fixture
def url(server):
    """Serve the management app of *server*; every request needs the token."""
    app = create_management(server, RouteMetrics(server))

    def guarded(environ, start_response):
        if environ.get("HTTP_AUTHORIZATION") == f"Bearer {TOKEN}":
            return app(environ, start_response)
        problem = {"title": "Unauthorized", "detail": "a bearer token is needed"}
        start_response("401 Unauthorized", [("Content-Type", "application/problem+json")])
        return [json.dumps(problem).encode()]

    listener = make_server("127.0.0.1", 0, guarded, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{listener.port}"
    listener.shutdown()
    thread.join()
    listener.server_close()


@pytest.fixture
def ask(url, capsys, monkeypatch):
    """Return ``ask(*words)``: exit status, stdout, stderr."""
    monkeypatch.setenv("SERVEKIT_MANAGE_TOKEN", TOKEN)

    def run(*words, to=url):
        try:
            status = main([*words, "--server", to])
        except SystemExit as ended:
            status = ended.code
        return status, *capsys.readouterr()

    return run


def ends(state, **fields):
    def turn(row):
        row.state, row.ended = state, row.began + 1.5
        for name, value in fields.items():
            setattr(row, name, value)

    return turn


# ---------------------------------------------------------------- looking


def test_status_of_a_server_elsewhere(ask, url):
    status, out, _ = ask("status")

    assert status == OK
    assert out.splitlines()[0] == f"{url}: healthy"
    assert json.loads(ask("status", "--json")[1])["server"] == url


def test_status_shows_the_operations_of_the_last_minutes(ask, server):
    server.operate("o1", Swap(model="digits", version="2.0"))
    server.table.operations[-1].steps = [OperationStep("load", DONE), OperationStep("watch")]
    server.operate("o2", Unload(model="echo"))
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


def test_crashes_of_a_server_elsewhere(ask):
    assert ask("crashes")[1].startswith("2026  digits/0  killed\n")


def test_a_reload_of_everything_does_not_wait(ask, server):
    status, out, _ = ask("reload")

    assert (status, server.operations) == (OK, ["SIGHUP"])
    assert out.endswith(" reloads; its log says how each model fares\n")


@pytest.mark.parametrize("command", ["status", "models", "reload", "crashes"])
def test_a_wrong_token_is_a_problem_of_one_line(ask, monkeypatch, command):
    monkeypatch.setenv("SERVEKIT_MANAGE_TOKEN", "wrong")
    status, out, error = ask(command)

    assert (status, out, error.count("\n")) == (PROBLEM_FOUND, "", 1)
    assert "answers 401: a bearer token is needed; set SERVEKIT_MANAGE_TOKEN" in error


@pytest.mark.parametrize(
    ("to", "complaint"),
    [
        ("localhost:8081", "is not http://HOST:PORT or https://HOST:PORT"),
        ("http://localhost:port", "is not http://HOST:PORT or https://HOST:PORT"),
        ("http://", "names no host"),
        ("http://127.0.0.1:1", "does not answer at http://127.0.0.1:1: Connection refused"),
    ],
)
def test_a_url_without_a_server(ask, to, complaint):
    status, out, error = ask("status", to=to)

    assert (status, out, error.count("\n")) == (PROBLEM_FOUND, "", 1)
    assert complaint in error


# ---------------------------------------------------------------- changing

CHANGES = {
    "reload": (("reload", "digits"), ReloadModels(model="digits")),
    "unload": (("unload", "digits"), Unload(model="digits")),
    "a version": (("unload", "digits", "1.0+b"), Unload(model="digits", version="1.0+b")),
    "scale": (("scale", "digits", "4"), Scale(model="digits", replicas=4)),
    "range": (
        ("scale", "digits", "1:4", "--stage", "decode"),
        Scale(model="digits", replicas={"min": 1, "max": 4}, stage="decode"),
    ),
    "rollback": (("rollback", "digits"), RollBack(model="digits")),
    "alias": (
        ("alias", "digits", "canary", "2.0"),
        SetTraffic(model="digits", aliases={"canary": "2.0"}),
    ),
    "no alias": (
        ("alias", "digits", "canary", "--remove"),
        SetTraffic(model="digits", aliases={"canary": ""}),
    ),
    "weights": (
        ("traffic", "digits", "1.0=90", "a=b=10", "--sticky", "X-User"),
        SetTraffic(model="digits", weights={"1.0": 90, "a=b": 10}, sticky="X-User"),
    ),
    "mirror": (
        ("traffic", "digits", "--mirror", "2.0", "--mirror-percent", "20"),
        SetTraffic(model="digits", mirror="2.0", mirror_percent=20),
    ),
    "reset": (
        ("traffic", "digits", "--reset"),
        SetTraffic(model="digits", weights={}, sticky="", mirror=""),
    ),
}


@pytest.mark.parametrize(("words", "operation"), CHANGES.values(), ids=CHANGES)
def test_a_command_becomes_an_operation(ask, server, words, operation):
    server.turns = [ends(DONE)]
    status, out, error = ask(*words)

    assert (status, error, server.operations) == (OK, "", [operation])
    assert out == f"digits: {type(operation).__struct_config__.tag} done in 1.5 s\n"


def test_a_source_is_absolute_for_the_server(ask, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server.turns = [ends(DONE), ends(DONE), ends(DONE)]
    settings = ("--set", "replicas=2", "--set", "options.threshold=0.4")

    assert ask("load", "a.mar", "--name", "a", *settings)[0] == OK
    assert ask("load", "s3://models/b.mar")[0] == OK
    assert ask("swap", "digits", "a.mar", "--shift", "10", "50", "--watch", "1")[0] == OK
    assert server.operations == [
        Load(
            source=f"{tmp_path}/a.mar",
            model="a",
            settings={"replicas": 2, "options": {"threshold": 0.4}},
        ),
        Load(source="s3://models/b.mar"),
        Swap(model="digits", source=f"{tmp_path}/a.mar", shift=[10, 50], watch_s=1.0),
    ]


def test_the_steps_are_shown_as_they_end(ask, server):
    prepare, load = OperationStep("prepare", began=5.0), OperationStep("load", began=6.0)

    def second(row):
        prepare.state, prepare.ended = DONE, 6.0
        row.steps.append(load)

    def third(row):
        load.state, load.ended, load.detail = DONE, 6.5, "2 replicas"
        ends(DONE, version="2.0")(row)

    server.turns = [lambda row: row.steps.append(prepare), second, third]
    status, out, error = ask("swap", "digits", "/b.mar")

    assert (status, out) == (OK, "digits/2.0: swap done in 1.5 s\n")
    assert error == "digits: prepare done 1.0 s\ndigits: load done 0.5 s: 2 replicas\n"


def test_a_failure_says_why_and_has_its_status(ask, server):
    failed = ends(FAILED, error="example 1 is wrong", status=409)
    server.turns = [failed, failed]

    assert ask("swap", "digits", "/b.mar") == (
        PROBLEM_FOUND, "", "servekit: digits: swap failed: example 1 is wrong\n",
    )  # fmt: skip
    status, out, _ = ask("swap", "digits", "/b.mar", "--json")
    assert (status, json.loads(out)["error"]) == (PROBLEM_FOUND, "example 1 is wrong")


def test_an_operation_that_fails_at_once_is_a_failure_too(ask, server, monkeypatch):
    begin = server.operate

    def operate(id_, operation):
        begin(id_, operation)
        ends(FAILED, error="there is no version 9", status=404)(server.table.operations[-1])

    monkeypatch.setattr(server, "operate", operate)

    assert ask("unload", "digits", "9")[::2] == (
        PROBLEM_FOUND, "servekit: digits: unload failed: there is no version 9\n",
    )  # fmt: skip


def test_a_request_that_is_refused_names_the_field(ask, server):
    status, _, error = ask("scale", "digits", "9999")

    assert (status, server.operations) == (PROBLEM_FOUND, [])
    assert error.endswith("answers 422: replicas: expected int <= 1024\n")


def test_no_wait_returns_with_the_id(ask, server):
    status, out, _ = ask("unload", "digits", "--no-wait")

    assert (status, out) == (
        OK, f"digits: unload has begun: operation {server.table.operations[0].id}\n",
    )  # fmt: skip
    assert json.loads(ask("unload", "digits", "--no-wait", "--json")[1])["state"] == "running"


def test_an_interrupt_leaves_the_operation_running_and_says_so(ask, server, monkeypatch):
    def interrupted(self, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(ManagedServer, "get", interrupted)
    status, _, error = ask("unload", "digits")
    id_ = server.table.operations[0].id

    assert status == INTERRUPTED
    assert error == f"servekit: operation {id_} continues; `servekit status` shows its state\n"


def test_a_front_end_that_is_replaced_meanwhile_is_asked_again(ask, server, monkeypatch):
    server.turns = [ends(DONE)]
    asked, tries = ManagedServer.get, []

    def get(self, path):
        tries.append(path)
        if len(tries) == 1:
            raise connection.NoServer("reset")
        return asked(self, path)

    monkeypatch.setattr(ManagedServer, "get", get)

    assert ask("unload", "digits")[0] == OK
    assert len(tries) == 2


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("scale", "digits", "many"), "argument REPLICAS: invalid replicas value: 'many'"),
        (("traffic", "digits", "1.0"), "argument VERSION=WEIGHT: invalid weight value: '1.0'"),
        (("traffic", "digits"), "say what to change"),
        (("alias", "digits", "canary"), "one of the arguments VERSION --remove is required"),
        (("status", "--pid", "1"), "argument --server: not allowed with argument --pid"),
    ],
)
def test_mistakes_of_usage(ask, words, complaint):
    status, out, error = ask(*words)

    assert (status, out) == (USAGE, "")
    assert complaint in error


def test_live_text_replaces_what_it_has_drawn(monkeypatch):
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("LINES", "3")
    stream = io.StringIO()
    text = LiveText(stream)
    text.draw(["a", "b" * 20, "c"])
    text.draw(["d"])

    assert stream.getvalue() == "\x1b[Ja\n" + "b" * 9 + "\n" + "\x1b[2A\r\x1b[Jd\n"
