# SPDX-License-Identifier: Apache-2.0
"""The series of the supervisor in ``/metrics``."""

from servekit.frontend.metrics.replicas import supervised
from servekit.ipc.table import CAUSES, RELOADS, STATES, ModelRow, ReplicaRow, Table, Tally
from servekit.supervisor.replicas.lifecycle import State


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
    tally = Tally()
    tally.restarted("a")
    for cause in ("killed", "killed", "signal"):
        tally.crashed("a", cause)
    tally.reloaded("failed")
    found = values(Table([row("a", "serving", "serving", "backoff"), row("b")], tally=tally))

    assert {key: value for key, value in found.items() if value} == {
        ("servekit_replicas", "a", "1", "serving"): 2,
        ("servekit_replicas", "a", "1", "backoff"): 1,
        ("servekit_restarts_total", "a"): 1,
        ("servekit_crashes_total", "a", "killed"): 2,
        ("servekit_crashes_total", "a", "signal"): 1,
        ("servekit_reloads_total", "failed"): 1,
    }
    assert len(found) == 2 * (len(STATES) + 1 + len(CAUSES)) + len(RELOADS)


def test_the_states_are_those_of_the_supervisor():
    assert set(STATES) == {state.name.lower() for state in State}
