# SPDX-License-Identifier: Apache-2.0
"""Replicas that follow the load, and spares, with workers that only stand in for others."""

import pytest

from servekit.ipc.model_counters import StageCounts, VersionCounts
from servekit.ipc.operations import Scale, Swap
from servekit.supervisor.operations import autoscaling
from servekit.supervisor.operations.autoscaling import PAUSE_S, Autoscaler
from servekit.supervisor.operations.server import OperatedServer

from .in_process import InProcess

RANGE = {"min": 1, "max": 3}


class Scaled(InProcess):
    """Has a clock, and a load that tests choose."""

    def __init__(self, *args, **settings):
        self.now, self.queue_s, self.stage = 1000.0, 0.0, StageCounts(0, 0.0, 0.0, 0, 0)
        super().__init__(*args, **settings)
        operated = OperatedServer(self.registry, self.loop, self.read, lambda: self.available)
        self.autoscaler = Autoscaler(operated)

    def read(self, _model, _version):
        return VersionCounts({}, [], 0, 0, {"": self.stage})

    def pass_time(self, for_s, queue_s):
        """Let one batch be answered each half second; it waited for *queue_s*."""
        for _ in range(int(for_s * 2)):
            self.now += 0.5
            batches, waited_s = self.stage.batches + 1, self.stage.queue_s + queue_s
            self.stage = self.stage._replace(batches=batches, queue_s=waited_s)
            self.autoscaler.look(self.now)
            self.until(lambda: not self.registry.is_loading)

    @property
    def texts(self):
        return [each.text for each in self.reporter.notices if each.event == "model_scaled"]

    @property
    def indexes(self):
        return [replica.index for replica in self.digits.replicas]

    def stages(self):
        return self.registry.find("digits").versions.default.prepared.stages


@pytest.fixture
def server(monkeypatch, run_dir):
    server = Scaled(monkeypatch, run_dir, "/digits-1.0")
    yield server
    server.close()


def test_replicas_follow_the_load_within_the_range(server):
    server.do(Scale(model="digits", replicas=RANGE))
    server.pass_time(30, 0.5)
    most = len(server.indexes)
    server.pass_time(60, 0.0)

    assert (most, server.indexes) == (3, [0])
    assert server.texts == [
        "scales from 1 to 2: requests wait",
        "scales from 2 to 3: requests wait",
        "scales from 3 to 2: few requests",
        "scales from 2 to 1: few requests",
    ]


def test_a_number_ends_the_scaling(server):
    server.do(Scale(model="digits", replicas=RANGE))
    server.pass_time(10, 0.5)
    server.do(Scale(model="digits", replicas=2))
    server.pass_time(60, 0.0)

    assert len(server.indexes) == 2


def test_a_range_begins_at_the_nearest_number(server):
    server.do(Scale(model="digits", replicas=4))
    row = server.do(Scale(model="digits", replicas=RANGE))

    assert (row.state, row.steps[0].detail, len(server.indexes)) == (
        *("done", "1.0: 1 to 3 replicas", 3),
    )


def test_a_new_version_begins_with_as_many_as_the_old(server):
    server.do(Scale(model="digits", replicas=RANGE))
    server.pass_time(30, 0.5)
    server.do(Swap(model="digits", source="/digits-2.0", watch_s=0.0, keep_s=0.0))

    assert (server.digits.version, len(server.indexes)) == ("2.0", 3)


def test_without_memory_nothing_grows(server):
    server.do(Scale(model="digits", replicas=RANGE))
    server.available = 0
    server.pass_time(30, 0.5)
    text = server.texts[-1]
    server.available = None
    server.pass_time(PAUSE_S, 0.5)

    assert "there cannot be more replicas: digits/1.0 needs about 32 MiB" in text
    assert len(server.texts) == 3  # said once, then 2 and 3 replicas
    assert len(server.indexes) == 3


def test_a_replica_that_cannot_be_loaded_is_dropped(server):
    server.do(Scale(model="digits", replicas=RANGE))
    (stage,) = server.stages()
    good, stage.manifest = stage.manifest, b'{"act": "crash"}'
    server.pass_time(30, 0.5)
    stage.manifest = good
    before = server.indexes
    server.pass_time(PAUSE_S, 0.5)

    assert server.texts[1].startswith("scales from 2 to 1: a worker cannot be loaded")
    assert (before, len(server.indexes)) == ([0], 3)


# ---------------------------------------------------------------- memory


@pytest.fixture
def memory(server, monkeypatch):
    """Let tests say what each pid uses."""
    used = {}
    monkeypatch.setattr(autoscaling, "private_bytes", lambda pid: used.get(pid, 0))
    server.stages()[0].max_memory = 100
    return used


def test_a_spare_takes_the_place_of_a_replica_that_has_grown(server, memory):
    server.do(Scale(model="digits", replicas=2))
    first = server.digits.replicas[0]
    memory[first.pid] = 101
    server.pass_time(1, 0.0)
    server.until(lambda: len(server.indexes) == 2)

    assert server.indexes == [1, 2]
    default = server.registry.find("digits").versions.default
    assert [replica.place for replica in default.of_stage("")] == [0, 1]


def test_one_replacement_a_minute(server, memory):
    server.do(Scale(model="digits", replicas=3))
    memory.update({replica.pid: 101 for replica in server.digits.replicas})
    server.pass_time(10, 0.0)
    early = server.indexes
    server.pass_time(PAUSE_S, 0.0)

    assert early == [1, 2, 3]
    assert server.indexes == [2, 3, 4]


def test_a_spare_that_cannot_be_loaded_changes_nothing(server, memory):
    memory[server.digits.replicas[0].pid] = 101
    server.stages()[0].manifest = b'{"act": "crash"}'
    server.pass_time(10, 0.0)

    assert server.indexes == [0]


def test_a_spare_leaves_when_the_model_is_scaled(server, memory):
    version = server.registry.find("digits").versions.default
    spare = version.replace(version.replicas[0])
    version.resize("", 1)

    assert version.replace(spare) is None
    assert server.indexes == [0]
