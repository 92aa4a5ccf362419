# SPDX-License-Identifier: Apache-2.0
"""A configuration that changes while models that it did not name are served, or operated."""

import pytest

from servekit.ipc.control import Hung
from servekit.ipc.operations import Load, Scale, Swap, Unload
from servekit.settings import Settings
from servekit.settings.models import ModelSource
from servekit.supervisor.models import boot_plan
from servekit.supervisor.models.reconfiguring import reconfigure

from .in_process import FakePrepareChild, FakeWorker, InProcess

DIGITS = ModelSource("/digits-1.0", "digits")


@pytest.fixture
def serve(monkeypatch, run_dir):
    """Return what serves ``digits/1.0`` by some settings."""
    servers = []

    def begin(**settings):
        server = InProcess(monkeypatch, run_dir, DIGITS.path, settings=Settings(**settings))
        servers.append(server)
        return server

    yield begin
    for server in servers:
        server.close()


@pytest.fixture
def server(serve):
    return serve()


def name(server, *sources):
    """Let the configuration name *sources*."""
    reconfigure(server.registry, server.registry.settings, sources)


def served(server):
    """Return each row of the table, once nothing is done to any model."""
    server.until(lambda: not any(model.work.doing for model in server.registry))
    return [f"{row.name}/{row.version}" for row in server.registry.rows()]


def steps(row):
    return [step.name for step in row.steps]


# ---------------------------------------------------------------- named by the configuration


@pytest.mark.parametrize("source", [ModelSource("/two-1.0", "two"), ModelSource("/two-1.0")])
def test_a_model_loaded_at_run_time_serves_on_once_the_configuration_names_it(server, source):
    server.do(Load(source="/two-1.0"))
    pids = server.registry.find("two").pids
    name(server, DIGITS, source)

    assert served(server) == ["digits/1.0", "two/1.0"]
    assert server.registry.find("two").pids == pids
    assert server.registry.find("two").configured == source.text


def test_a_model_loaded_at_run_time_follows_the_configuration_that_names_it(server):
    server.do(Load(source="/two-1.0"))
    name(server, DIGITS, ModelSource("/two-2.0", "two"))
    replaced = served(server)
    name(server, DIGITS)

    assert replaced == ["digits/1.0", "two/2.0"]
    assert served(server) == ["digits/1.0"]


def test_a_newcomer_whose_name_the_configuration_takes_meanwhile_is_refused(server, monkeypatch):
    """The model of the configuration is still being prepared when the newcomer has loaded."""
    row, end = server.begin(Load(source="/two-2.0:slow")), FakePrepareChild._end

    def end_last(child):
        if row.state == "running":
            server.loop.call_later(0.001, lambda: end_last(child))
        else:
            end(child)

    server.until(lambda: steps(row) == ["prepare", "load"])
    monkeypatch.setattr(FakePrepareChild, "_end", end_last)
    name(server, DIGITS, ModelSource("/two-1.0", "two"))
    server.until(lambda: row.state != "running")

    assert (row.state, row.status) == ("failed", 409)
    assert served(server) == ["digits/1.0", "two/1.0"]


def begin_swap(server):
    """Begin a swap to ``digits/2.0`` that is not over yet."""
    row = server.begin(Swap(model="digits", source="/digits-2.0:slow", watch_s=0.0, keep_s=0.0))
    server.until(lambda: "load" in steps(row))
    return row


def test_a_model_that_is_removed_and_named_again_during_a_swap_stays(server):
    row = begin_swap(server)
    name(server)
    name(server, DIGITS)
    server.until(lambda: row.state == "done")
    server.until(lambda: server.digits.version == "1.0")

    assert served(server) == ["digits/1.0"]


def test_a_model_that_is_removed_in_the_end_leaves_once(server):
    row = begin_swap(server)
    for sources in ([], [DIGITS], []):
        name(server, *sources)
    server.until(lambda: row.state == "done")

    server.until(lambda: not server.registry.pids)
    assert served(server) == []
    unloaded = [
        event for event in server.reporter.events if type(event).__name__ == "ModelUnloaded"
    ]
    assert [event.reason for event in unloaded if event.version == "2.0"] == ["unloaded"]


# ---------------------------------------------------------------- versions of a known model


def test_a_version_that_is_found_by_its_manifest_is_prepared_once(server):
    server.do(Scale(model="digits", replicas=3))
    row = server.do(Load(source="/digits-2.0"))
    (version,) = server.registry.find("digits").versions.others

    assert (row.state, steps(row)) == ("done", ["prepare", "load"])
    assert len(version.replicas) == 3
    assert version.source.name == "digits"


def test_a_version_is_prepared_again_for_the_user_of_its_model(serve, monkeypatch):
    """The workers of each model run as another user, who must be able to read the files."""
    end = FakePrepareChild._end

    def end_with_user(child):
        given = child._on_outcome
        user = child._request.worker_user

        def give(outcome):
            outcome.model.user = user
            given(outcome)

        child._on_outcome = give
        end(child)

    monkeypatch.setattr(FakePrepareChild, "_end", end_with_user)
    monkeypatch.setattr(boot_plan, "find_user", lambda _name: None)
    server = serve(worker_user="20000-20009")
    row = server.do(Load(source="/digits-2.0"))
    users = {each.prepared.user for each in server.registry.find("digits").versions.served}

    assert (row.state, steps(row)) == ("done", ["prepare", "prepare", "load"])
    assert users == {"20000"}


# ---------------------------------------------------------------- two models of one name


def test_a_report_kills_the_worker_of_the_model_that_it_means(server, monkeypatch):
    """The model was unloaded and another loaded under its name; the old worker is not done yet."""
    (old,) = server.digits.replicas
    monkeypatch.setattr(FakeWorker, "retire", lambda _worker: None)
    gone = server.begin(Unload(model="digits"))
    server.until(lambda: not server.models)
    server.do(Load(source="/digits-2.0"))
    (new,) = server.digits.replicas
    server.registry.hung(Hung(old.address, old.index, old.generation, "slow"))
    server.until(lambda: gone.state == "done")

    assert (new.index, new.generation) == (old.index, old.generation)
    assert [row.pid for row in server.digits.replicas] == [new.pid]
    assert new.pid in server.registry.pids
