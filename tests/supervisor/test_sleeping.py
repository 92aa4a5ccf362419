# SPDX-License-Identifier: Apache-2.0
"""Models that sleep: what becomes of them in a reload, and of the parents of their workers."""

import pytest

from servekit.ipc.operations import ReloadModels
from servekit.settings import Settings
from servekit.settings.deployments import Deployment
from servekit.supervisor.models import memory, replica_keeper
from servekit.supervisor.models.version_source import VersionSource

from .in_process import InProcess

MIB = 1 << 20
ON_DEMAND, IDLE = {"replicas": 0}, {"idle_s": 60.0}


@pytest.fixture
def serve(monkeypatch, run_dir):
    """Start a server of ``a/1.0``, ``b/1.0`` and ``c/1.0`` with these settings."""
    servers = []

    def start(names="abc", models_memory=0, **given):
        deployments = [Deployment(name=name, **given) for name in names]
        settings = Settings(deployments=deployments, models_memory=models_memory)
        paths = [f"/{name}-1.0" for name in names]
        servers.append(server := InProcess(monkeypatch, run_dir, *paths, settings=settings))
        return server

    yield start
    for server in servers:
        server.close()


def reload(server):
    """Let 2.0 take the place of 1.0; return which models are asleep then."""
    for model in server.registry:
        model.source = VersionSource(f"/{model.name}-2.0", model.name)
    row = server.do(ReloadModels())
    server.until(lambda: all(not each.versions for each in server.models.values()))

    assert row.state == "done", row.error
    assert {each.version for each in server.models.values()} == {"2.0"}
    return [each.name for each in server.models.values() if each.is_asleep]


def test_models_on_demand_that_sleep_are_not_woken_by_a_reload(serve):
    assert reload(serve(**ON_DEMAND)) == ["a", "b", "c"]


def test_a_model_that_is_awake_stays_awake_after_a_reload(serve):
    server = serve(**ON_DEMAND)
    (version,) = server.registry.find("b").versions
    version.launch()
    server.until(lambda: version.is_whole)

    assert reload(server) == ["a", "c"]


def test_a_reload_wakes_models_as_far_as_there_is_room(serve):
    """It tries out what it can."""
    server = serve(models_memory=40 * MIB, **IDLE)
    for model in server.registry:
        model.versions.default.sleep()
    asleep = reload(server)

    assert len(asleep) == 2
    assert server.registry.memory.taken <= 40 * MIB


def test_a_reload_wakes_a_model_that_may_not_sleep_any_more(serve):
    server = serve("a", **ON_DEMAND)
    server.registry.settings = Settings()

    assert reload(server) == []


# ---------------------------------------------------------------- parents of workers


class FakeParent:
    """A preloaded parent; the workers are not forked from it."""

    made: list["FakeParent"]

    def __init__(self, loop, boot, *, on_line, on_settled):
        self.made.append(self)
        self.pid = 1000 + len(self.made)

    def when_settled(self, call):
        call()

    def applied(self, boot):
        return boot

    def close(self):
        self.pid = None


@pytest.fixture
def parents(monkeypatch):
    """The preloaded parents that were started."""
    monkeypatch.setattr(FakeParent, "made", [], raising=False)
    monkeypatch.setattr(replica_keeper, "PreloadedParent", FakeParent)
    return FakeParent.made


def test_a_model_that_sleeps_keeps_no_preloaded_parent(serve, parents):
    (version,) = serve("a", preload=True, **IDLE).registry.find("a").versions
    version.sleep()
    asleep = [parent.pid for parent in parents]
    version.launch()

    assert asleep == [None]
    assert [parent.pid for parent in parents] == [None, 1002]


def test_a_preloaded_parent_counts_as_memory_of_its_model(serve, parents, monkeypatch):
    monkeypatch.setattr(memory, "proportional_bytes", lambda pid: 100 if pid == 1001 else 10)
    registry = serve("a", preload=True, **IDLE).registry
    registry.memory.measure()

    assert registry.memory.taken == 110
