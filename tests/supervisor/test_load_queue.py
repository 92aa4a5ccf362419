# SPDX-License-Identifier: Apache-2.0
"""Which loads run at once, which wait, and that none waits for ever."""

import signal

import pytest

from servekit.supervisor.replicas.load_queue import LoadQueue, QueuedLoad

pytestmark = pytest.mark.slow

MIB = 2**20


class Yard:
    """A ``Loads`` and what it began."""

    def __init__(self, most, available_bytes):
        self.loads = LoadQueue(most, lambda: available_bytes)
        self.begun, self.waits = [], {}

    def ask(self, owner, needs_mib=1, *, fails=False, is_urgent=False):
        def begin():
            self.begun.append(owner)
            if fails:
                self.loads.done(owner)

        load = QueuedLoad(
            owner, needs_mib * MIB, begin, lambda why: self.waits.update({owner: why})
        )
        self.loads.ask(load, is_urgent=is_urgent)


@pytest.mark.parametrize(
    ("most", "available_mib", "needs", "begun"),
    [
        pytest.param(2, 1000, (1, 1, 1), 2, id="as many as there are cores"),
        pytest.param(9, 100, (40, 40, 40), 2, id="as many as fit the memory"),
        pytest.param(9, 100, (500,), 1, id="one that never fits runs alone"),
        pytest.param(9, 100, (500, 1), 1, id="nothing beside one that never fits"),
        pytest.param(9, 100, (60, 60, 1), 1, id="a small one does not overtake a large one"),
        pytest.param(9, 0, (1, 1), 1, id="one runs with no memory at all"),
    ],
)
def test_loads_that_begin_at_once(most, available_mib, needs, begun):
    yard = Yard(most, available_mib * MIB)
    for owner, needs_mib in enumerate(needs):
        yard.ask(owner, needs_mib)

    assert yard.begun == list(range(begun))
    assert sorted(yard.waits) == list(range(begun, len(needs)))


@pytest.mark.parametrize("available_bytes", [0, 100 * MIB, None])
@pytest.mark.parametrize("most", [1, 3])
def test_every_load_has_its_turn_in_order(most, available_bytes):
    yard = Yard(most, available_bytes)
    for owner in range(20):
        yard.ask(owner, needs_mib=owner * 10)
    for owner in range(20):
        yard.loads.done(owner)

    assert yard.begun == list(range(20))


def test_load_that_fails_as_it_begins_holds_up_nobody():
    yard = Yard(1, None)
    yard.ask("runs")
    for owner in range(5000):
        yard.ask(owner, fails=True)
    yard.loads.done("runs")

    assert yard.begun == ["runs", *range(5000)]


def test_replacement_of_a_worker_that_served_is_next():
    yard = Yard(1, None)
    for owner in ("runs", "waits"):
        yard.ask(owner)
    yard.ask("replaces", is_urgent=True)
    yard.loads.done("runs")

    assert yard.begun == ["runs", "replaces"]


def test_load_that_is_not_wanted_any_more_does_not_begin():
    yard = Yard(1, None)
    for owner in ("runs", "unwanted", "next"):
        yard.ask(owner)
    yard.loads.done("unwanted")
    yard.loads.done("runs")

    assert yard.begun == ["runs", "next"]


def test_nothing_begins_after_the_end():
    yard = Yard(1, None)
    for owner in ("runs", "waits"):
        yard.ask(owner)
    yard.loads.close()
    yard.loads.done("runs")
    yard.ask("late")

    assert yard.begun == ["runs"]


# ---------------------------------------------------------------- over real processes


def story(server):
    """Return the loads that began and ended, in order."""
    kinds = {"progress": "loading", "worker_ready": "ready"}
    return [
        (kinds[event["event"]], event["subject"][0])
        for event in server.events
        if event["event"] == "worker_ready" or event.get("message") == "loading"
    ]


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param({"CORES": "1"}, id="one core"),
        pytest.param({"CORES": "8", "AVAILABLE_BYTES": "0"}, id="no memory"),
    ],
)
def test_models_load_one_after_the_other_where_there_is_room_for_one(start, model, machine):
    server = start(*[model(name, act="slow") for name in "abc"], **machine)
    server.wait_for("serving")
    told = story(server)

    assert [kind for kind, _ in told] == ["loading", "ready"] * 3
    assert [name for _, name in told[::2]] == [name for _, name in told[1::2]]


def test_load_that_hangs_delays_the_others_no_longer_than_its_timeout(start, model):
    server = start(model("a", act="hang", worker={"load_timeout_s": 1}), model("b"), CORES="1")

    assert server.wait_for("serving")["models"] == ["b/1.0"]


def test_load_that_waits_does_not_begin_when_the_server_stops(start, model):
    server = start(*[model(name, act="hang") for name in "abc"], CORES="1")
    server.wait_for("progress", message="loading")
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0
    assert [kind for kind, _ in story(server)] == ["loading"]
