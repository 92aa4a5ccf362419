# SPDX-License-Identifier: Apache-2.0
"""Commands that change a running server: what they ask for, and what they show."""

import io
import json
import sys

import pytest

from servekit.cli.output.live_text import LiveText
from servekit.cli.parsing.exit_status import INTERRUPTED, OK, PROBLEM_FOUND, USAGE
from servekit.cli.server import connection
from servekit.cli.server.connection import ManagedServer
from servekit.cli.server.operating import DrawnSteps
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
from tests.web.fakes import ends

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


def test_the_steps_are_drawn_in_place_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    display, step = DrawnSteps(), {"name": "load", "detail": "", "began": 6.0, "ended": 6.5}
    display.show({"steps": [step | {"state": "running"}]})
    display.show({"steps": [step | {"state": "done"}, step | {"state": "failed", "detail": "no"}]})

    assert sys.stderr.getvalue() == (
        "\x1b[J⠙ load 0.5 s\n\x1b[1A\r\x1b[J✓ load done 0.5 s\n✗ load failed 0.5 s: no\n"
    )


def test_a_failure_says_why_and_has_its_status(ask, server):
    failed = ends(FAILED, error="example 1 is wrong", status=409)
    server.turns = [failed, failed]

    assert ask("swap", "digits", "/b.mar") == (
        PROBLEM_FOUND, "", "servekit: digits: swap failed: example 1 is wrong\n",
    )  # fmt: skip
    status, out, _ = ask("swap", "digits", "/b.mar", "--json")
    assert (status, json.loads(out)["error"]) == (PROBLEM_FOUND, "example 1 is wrong")


def test_an_operation_that_fails_at_once_is_a_failure_too(ask, server, monkeypatch):
    begin = server.begin_operation

    def operate(id_, operation):
        begin(id_, operation)
        ends(FAILED, error="there is no version 9", status=404)(server.table.operations[-1])

    monkeypatch.setattr(server, "begin_operation", operate)

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


def test_an_interrupt_leaves_the_operation_running_and_says_so(ask, url, server, monkeypatch):
    def interrupted(self, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(ManagedServer, "get", interrupted)
    status, _, error = ask("unload", "digits")
    id_ = server.table.operations[0].id

    assert status == INTERRUPTED
    command = f"`servekit status --server {url}`"
    assert error == f"servekit: operation {id_} continues; {command} shows its state\n"


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
        (("scale", "digits", "many"), "argument REPLICAS: 'many' is not a whole number"),
        (("traffic", "digits", "1.0"), "argument VERSION=WEIGHT: "),
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

    assert stream.getvalue() == "\x1b[Ja\n" + "b" * 8 + "…\n" + "\x1b[2A\r\x1b[Jd\n"
