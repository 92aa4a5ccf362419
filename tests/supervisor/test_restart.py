# SPDX-License-Identifier: Apache-2.0
"""What was changed at run time survives a SIGKILL of everything."""

import json
import os
import shutil
import signal
from contextlib import suppress
from itertools import count

import pytest

from servekit.ipc.operations import Load, Operate, Scale, SetTraffic, Swap, Unload

pytestmark = pytest.mark.slow

NUMBERS = count()


class Operator:
    """Asks for operations as a front-end does, and reads the tables."""

    def __init__(self, control):
        self.control = control
        self.models = {}

    def do(self, operation):
        """Return the row of *operation* once it has ended."""
        id_ = f"o{next(NUMBERS)}"
        self.control.send(Operate(id_, operation))
        ended = self.wait_for(lambda table: row_of(table, id_).state != "running")
        return row_of(ended, id_)

    def wait_for(self, condition):
        """Return the first table that fulfils *condition*; a row may not be there yet."""

        def holds(table):
            try:
                return condition(table)
            except LookupError:
                return False

        table = self.control.wait_for(holds)
        self.models = {model.name: model for model in table.models}
        return table


def row_of(table, id_):
    return {row.id: row for row in table.operations}[id_]


def versions(row):
    return [row.version, *(each.version for each in row.versions)]


@pytest.fixture
def version(tmp_path, model):
    """Return a function that makes a directory with another version."""

    def make(number, name="digits"):
        directory = model(f"{name}-{number}")
        toml = directory / "model.toml"
        named = toml.read_text().replace(f"{name}-{number}", name, 1)
        toml.write_text(f'version = "{number}"\n{named}')
        return str(directory)

    return make


def kill_all(server, processes):
    for pid in [*processes(server.process.pid), server.process.pid]:
        with suppress(ProcessLookupError):  # it had just ended
            os.kill(pid, signal.SIGKILL)
    server.wait_exit()


def test_a_restart_after_a_kill_comes_back_with_the_same(
    start, model, version, processes, tmp_path
):
    arguments = (model("digits"), "--state", tmp_path / "state.json")
    server = start(*arguments)
    server.wait_for("serving")
    with server.control() as control:
        operator = Operator(control)
        operator.do(Swap(model="digits", source=version("2.0"), watch_s=0.0))
        operator.do(Load(source=version("3.0"), model="digits"))
        operator.do(Scale(model="digits", replicas=2))
        operator.do(
            SetTraffic(model="digits", aliases={"canary": "3.0"}, weights={"2.0": 9, "3.0": 1})
        )
        operator.do(Load(source=version("1.0", name="other")))
    before = operator.models
    kill_all(server, processes)
    server = start(*arguments)
    server.wait_for("serving")
    with server.control() as control:
        operator = Operator(control)
        operator.wait_for(
            lambda table: versions(table.models[0]) == ["2.0", "3.0"] and table.models[0].versions
        )
        row = operator.models["digits"]
        other = operator.do(Scale(model="other", replicas=1))

    assert row.traffic == before["digits"].traffic
    assert {each.name: each.source for each in row.settings}["path"] == "run time"
    assert [len(each.replicas) for each in (row, *row.versions)] == [2, 2]
    assert other.state == "done"
    assert "2.0 from" in server.wait_for("state_read", subject="digits")["message"]


def test_a_new_path_on_the_command_line_wins(start, model, version, processes, tmp_path):
    state = ("--state", tmp_path / "state.json")
    server = start(f"digits={model('digits')}", *state)
    server.wait_for("serving")
    with server.control() as control:
        Operator(control).do(Swap(model="digits", source=version("2.0"), watch_s=0.0))
    kill_all(server, processes)
    server = start(f"digits={version('3.0')}", *state)

    assert server.wait_for("serving")["models"] == ["digits/3.0"]
    server.wait_for("state_read", level="warning")


def test_the_configuration_counts_if_what_was_swapped_in_is_gone(
    start, model, version, processes, tmp_path
):
    arguments = (model("digits"), "--state", tmp_path / "state.json")
    server = start(*arguments)
    server.wait_for("serving")
    second = version("2.0")
    with server.control() as control:
        Operator(control).do(Swap(model="digits", source=second, watch_s=0.0))
    kill_all(server, processes)
    shutil.rmtree(second)
    server = start(*arguments)

    assert server.wait_for("serving")["models"] == ["digits/1.0"]
    assert "the configuration names" in server.wait_for("model_failed")["reason"]


def test_an_unloaded_model_stays_away(start, model, processes, tmp_path):
    arguments = (model("one"), model("two"), "--state", tmp_path / "state.json")
    server = start(*arguments)
    server.wait_for("serving")
    with server.control() as control:
        Operator(control).do(Unload(model="two"))
    saved = json.loads((tmp_path / "state.json").read_text())
    kill_all(server, processes)

    assert [each["name"] for each in saved["models"]] == ["two"]
    assert start(*arguments).wait_for("serving")["models"] == ["one/1.0"]


def test_a_server_may_begin_without_models(start, version, tmp_path):
    server = start("--state", tmp_path / "state.json")
    server.wait_for("serving")
    with server.control() as control:
        row = Operator(control).do(Load(source=version("1.0")))

    assert row.state == "done"
    assert (tmp_path / "state.json").exists()
