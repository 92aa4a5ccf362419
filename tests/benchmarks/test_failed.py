# SPDX-License-Identifier: Apache-2.0
"""A server that cannot be had, or fails, costs its own figures and nobody else's."""

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import options
from tests.benchmarks.errors import Missing, NotReady
from tests.benchmarks.failed import Failed
from tests.benchmarks.optional import Flask, MLServer


def test_what_failed_is_asked_for_no_more(capsys):
    failed, asked = Failed(), []
    for server in (Flask(), MLServer(1), Flask()):
        with failed.alone(server, "small") as is_asked:
            asked.append((server.key, is_asked))
            if server.key == "flask" and is_asked:
                raise NotReady("gone before it was ready; its last lines:\nmany lines")

    assert asked == [("flask", True), ("mlserver-1", True), ("flask", False)]
    assert [left.reason for left in failed.found.values()] == [
        "failed: gone before it was ready; its last lines:"
    ]
    assert "many lines" in capsys.readouterr().err


def test_mistakes_of_the_benchmark_itself_end_it():
    with pytest.raises(ZeroDivisionError), Failed().alone(Flask(), "small"):
        raise ZeroDivisionError


def test_a_server_that_cannot_be_had_is_left_out(monkeypatch, capsys):
    def missing(_server):
        raise Missing("no network")

    monkeypatch.setattr(Flask, "install", missing)
    monkeypatch.setattr(command, "debian_program", print)
    monkeypatch.setattr(command, "read_machine", lambda: None)
    results = command._prepare(options.parse(["--servers=flask"]))

    assert not results.servers
    assert [(left.server, left.reason) for left in results.left_out] == [
        ("gunicorn + Flask", "no network")
    ]
    assert "left out: gunicorn + Flask: no network" in capsys.readouterr().err
