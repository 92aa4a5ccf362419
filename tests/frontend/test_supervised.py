# SPDX-License-Identifier: Apache-2.0
"""The series of the supervisor in ``/metrics``."""

import os
import platform

import pytest

from servekit import __version__
from servekit.frontend.metrics.replicas import RESULTS, supervised
from servekit.ipc.operations import KINDS
from servekit.ipc.table import (
    STATES,
    ModelRow,
    ReplicaRow,
    StageRow,
    Table,
)
from servekit.ipc.tally import CAUSES, MOST_VERSIONS, RELOADS, RESTART, Tally
from servekit.supervisor.replicas.lifecycle import State
from servekit.system.processes import memory_of


def row(name, *states):
    replicas = [ReplicaRow(i, 1, "/run/a", state) for i, state in enumerate(states)]
    return ModelRow(name, "1", "", replicas, 1, 0.0, 1.0, 1)


def values(table):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in supervised(table)
        for sample in family.samples
    }


def test_states_of_replicas_and_what_happened_to_them():
    tally = Tally(5.0)
    tally.restarted("a", "1")
    for cause in ("killed", "killed", "signal"):
        tally.crashed("a", "1", cause)
    tally.crashed("a", "", "load_failed")
    tally.reloaded("failed")
    tally.operated("swap", "done")
    found = values(Table([row("a", "serving", "serving", "backoff"), row("b")], tally=tally))

    assert {key: value for key, value in found.items() if value} == {
        ("servekit_replicas", "a", "1", "serving"): 2,
        ("servekit_replicas", "a", "1", "backoff"): 1,
        ("servekit_model_ready", "a", "1"): 1,
        ("servekit_restarts_total", "a", "1"): 1,
        ("servekit_crashes_total", "a", "1", "killed"): 2,
        ("servekit_crashes_total", "a", "1", "signal"): 1,
        ("servekit_crashes_total", "a", "", "load_failed"): 1,
        ("servekit_reloads_total", "failed"): 1,
        ("servekit_operations_total", "swap", "done"): 1,
        ("servekit_build_info", __version__, platform.python_version()): 1,
        ("servekit_start_time_seconds",): 5.0,
    }
    of_versions = 2 * (len(STATES) + 1) + 3 * (1 + len(CAUSES))
    assert len(found) == of_versions + len(RELOADS) + len(KINDS) * len(RESULTS) + 2


@pytest.mark.parametrize(("state", "is_ready"), [("serving", 1), ("failed", 0)])
def test_a_model_is_ready_while_every_stage_serves(state, is_ready):
    known = row("a", "serving", state)
    known.stages = [StageRow("encode", 1, 0.0, 1.0), StageRow("decode", 1, 0.0, 1.0)]
    known.replicas[0].stage, known.replicas[1].stage = "encode", "decode"

    assert values(Table([known]))["servekit_model_ready", "a", "1"] == is_ready


def test_only_the_last_versions_that_had_troubles_are_remembered():
    tally = Tally()
    for number in range(3 * MOST_VERSIONS):
        tally.crashed("a", str(number), "killed")
        tally.restarted("a", str(number))

    assert list(tally.troubles["a"]) == [str(n) for n in range(2 * MOST_VERSIONS, number + 1)]
    assert tally.troubles["a"][str(number)] == {"killed": 1, RESTART: 1}


def test_the_memory_of_a_replica_is_that_of_all_its_processes():
    known = row("a", "serving", "backoff")
    known.replicas[0].pid = os.getpid()
    known.replicas[0].followers = [os.getppid()]
    found = values(Table([known]))
    name = "servekit_replica_memory_bytes"

    assert [key[1:] for key in found if key[0] == name] == [
        ("a", "1", "0", "private"),
        ("a", "1", "0", "shared"),
    ]
    assert found[name, "a", "1", "0", "private"] > memory_of(os.getpid()).private


def test_the_states_are_those_of_the_supervisor():
    assert set(STATES) == {state.name.lower() for state in State}
