# SPDX-License-Identifier: Apache-2.0
"""The cores that a worker may use: a share, by all the workers that there will be."""

import pytest

from servekit.ipc.operations import Load, ReloadModels, Scale, Swap
from servekit.settings import Settings
from servekit.settings.deployments import Deployment, ReplicaRange
from servekit.settings.models import expected_replicas
from servekit.supervisor.models import boot_plan
from servekit.supervisor.models.version_source import VersionSource

from .in_process import FakeWorker, InProcess

CORES = 12


@pytest.fixture
def serve(monkeypatch, run_dir):
    """Start servers on a machine of 12 cores; they have ``threads``, of each worker in order."""
    servers, threads = [], []
    begin = FakeWorker.__init__

    def observed(worker, loop, command, listener, launch, **handlers):
        threads.append(launch.threads)
        begin(worker, loop, command, listener, launch, **handlers)

    def start(*paths, saved=(), **replicas):
        deployments = [Deployment(name=name, replicas=n) for name, n in replicas.items()]
        settings = Settings(deployments=deployments)
        own = run_dir / str(len(servers))
        own.mkdir()
        server = InProcess(monkeypatch, own, *paths, settings=settings, saved=saved)
        servers.append(server)
        server.until(lambda: not any(model.work.doing for model in server.registry))
        server.until(lambda: all(each.is_whole for m in server.registry for each in m.versions))
        server.threads = threads
        return server

    monkeypatch.setattr(boot_plan, "usable_cores", lambda: CORES)
    monkeypatch.setattr(FakeWorker, "__init__", observed)
    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize(("replicas", "share"), [(1, 12), (2, 6), (5, 2), (20, 1)])
def test_the_replicas_of_the_first_load_share_the_cores(serve, replicas, share):
    assert serve("/digits-1.0", digits=replicas).threads == [share] * replicas


def test_models_that_start_together_share_the_cores(serve):
    """Whichever is prepared first."""
    assert serve("/digits-1.0", "/other-1.0", digits=3).threads == [3] * 4


def test_a_version_that_is_swapped_in_takes_the_place_of_the_default(serve):
    server = serve("/digits-1.0", digits=2)
    server.do(Swap(model="digits", source="/digits-2.0", watch_s=0.0, keep_s=0.0))

    assert server.threads == [6] * 4


def test_a_version_that_comes_by_reload_takes_the_place_of_the_default(serve):
    server = serve("/digits-1.0", digits=2)
    (model,) = server.registry
    model.source = VersionSource("/digits-2.0", "digits")
    server.do(ReloadModels())

    assert server.threads == [6] * 4


def test_a_version_that_is_loaded_again_takes_the_place_of_its_namesake(serve):
    server = serve("/digits-1.0", digits=2)
    server.do(Load(model="digits", source="/digits-2.0"))
    server.do(Load(model="digits", source="/digits-2.0"))

    assert server.threads == [6, 6, 3, 3, 3, 3]


def test_a_version_that_is_loaded_beside_the_default_shares_with_it(serve):
    server = serve("/digits-1.0", digits=2)
    server.do(Load(model="digits", source="/digits-2.0"))

    assert server.threads == [6, 6, 3, 3]


def test_a_version_that_is_restored_beside_the_default_shares_with_it(serve):
    server = serve("/digits-1.0")
    server.do(Load(model="digits", source="/digits-2.0"))
    again = serve("/digits-1.0", saved=server.registry.saved)

    assert again.threads[-2:] == [12, 6]


@pytest.mark.parametrize(
    ("before", "after", "share"), [(3, 3, 4), (2, 6, 2), (6, 2, 6)], ids=["same", "more", "fewer"]
)
def test_replicas_that_are_replaced_one_by_one_share_as_in_the_end(serve, before, after, share):
    server = serve("/digits-1.0", digits=before)
    given = {"one_by_one": True, "step_s": 0.01, "watch_s": 0.0, "settings": {"replicas": after}}
    row = server.do(Swap(model="digits", source="/digits-2.0", **given))

    assert row.state == "done", row.error
    assert server.threads[before:] == [share] * after


def test_replicas_that_are_rolled_back_one_by_one_share_as_before(serve):
    server = serve("/digits-1.0", digits=3)
    given = {"one_by_one": True, "settings": {"replicas": 2}}
    row = server.do(Swap(model="digits", source="/digits-2.0:crash", **given))
    server.until(lambda: [each.state for each in server.digits.replicas] == ["serving"] * 3)

    assert row.state == "failed"
    assert server.threads == [4, 4, 4, 6, 4]


def test_a_model_that_is_loaded_at_run_time_counts_with_those_that_serve(serve):
    server = serve("/digits-1.0")
    server.do(Load(source="/other-1.0", settings={"replicas": 2}))

    assert server.threads == [12, 4, 4]


def test_replicas_that_are_added_share_with_those_that_serve(serve):
    server = serve("/digits-1.0")
    server.do(Scale(model="digits", replicas=3))

    assert server.threads == [12, 4, 4]


@pytest.mark.parametrize(
    ("replicas", "expected"), [(None, 1), (4, 4), (0, 0), (ReplicaRange(min=2, max=8), 2)]
)
def test_settings_say_how_many_replicas_are_expected(replicas, expected):
    settings = Settings(deployments=[Deployment(name="digits", replicas=replicas)])

    assert expected_replicas(settings, "digits") == expected
    assert expected_replicas(settings, "other") == 1
