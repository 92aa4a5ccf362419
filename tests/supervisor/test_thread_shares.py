# SPDX-License-Identifier: Apache-2.0
"""The cores that a worker may use: a share, by all the workers that there will be."""

import pytest

from servekit.ipc.operations import Load, Scale, Swap
from servekit.settings import Settings
from servekit.settings.deployments import Deployment, ReplicaRange
from servekit.settings.models import expected_replicas
from servekit.supervisor.models import boot_plan

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

    def start(*paths, **replicas):
        deployments = [Deployment(name=name, replicas=n) for name, n in replicas.items()]
        settings = Settings(deployments=deployments)
        servers.append(server := InProcess(monkeypatch, run_dir, *paths, settings=settings))
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
