# SPDX-License-Identifier: Apache-2.0
"""The names of models that a shell is offered."""

import argparse

import pytest

from servekit.cli.completion import _actions, _models, _parser


@pytest.mark.parametrize(
    ("command", "is_offered"),
    [("logs", True), ("unload", True), ("check", False), (None, False)],
)
def test_commands_that_ask_a_server_are_offered_its_models(command, is_offered):
    actions = _actions(_parser(command), command)
    offered = [each for each in actions if each.dest == "model" and hasattr(each, "completer")]

    assert bool(offered) == is_offered


def test_the_models_of_the_running_server(url, monkeypatch):
    monkeypatch.setenv("SERVEKIT_MANAGE_TOKEN", "let-me-in")

    assert _models(argparse.Namespace(server=url, pid=None, run_dir=None)) == ["digits", "echo"]


def test_no_server_no_models(tmp_path):
    assert _models(argparse.Namespace(server=None, pid=None, run_dir=str(tmp_path))) == []
