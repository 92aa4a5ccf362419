# SPDX-License-Identifier: Apache-2.0
"""What a server that starts again makes of the models that an earlier one has changed."""

import pytest

from servekit.ipc.operations import Load, ReloadModels, Scale, Swap, Unload
from servekit.supervisor.models.saved_models import SavedModel, SavedVersion
from servekit.supervisor.models.version_source import VersionSource

from .in_process import FakePrepareChild, InProcess

QUICK = {"watch_s": 0.0, "keep_s": 0.0}


@pytest.fixture
def serve(monkeypatch, run_dir):
    """Start a server of ``digits/1.0``, with the state that an earlier server has *saved*."""
    servers = []

    def start(saved=()):
        own = run_dir / str(len(servers))
        own.mkdir()
        servers.append(server := InProcess(monkeypatch, own, "/digits-1.0", saved=saved))
        server.until(lambda: not any(model.work.doing for model in server.registry))
        return server

    yield start
    for server in servers:
        server.close()


def served(server):
    """Return the version, source and number of replicas of each version."""
    (model,) = server.registry
    return [(each.version, each.source.path, each.size) for each in model.versions.served]


# ---------------------------------------------------------------- numbers of replicas


def test_the_number_of_one_version_is_restored(serve):
    server = serve()
    server.do(Scale(model="digits", replicas=4, version="1.0"))
    again = serve(server.registry.saved)
    further = serve(again.registry.saved)

    assert served(again) == served(further) == [("1.0", "/digits-1.0", 4)]


def test_the_number_that_a_swap_has_set_is_restored(serve):
    """It won over the scale before, which counts for later versions."""
    server = serve()
    server.do(Scale(model="digits", replicas=4))
    server.do(Swap(model="digits", source="/digits-2.0", settings={"replicas": 2}, **QUICK))
    again = serve(server.registry.saved)
    before = served(again)
    again.do(Swap(model="digits", source="/digits-3.0", **QUICK))

    assert before == [("2.0", "/digits-2.0", 2)]
    assert served(again) == [("3.0", "/digits-3.0", 4)]


def test_a_number_is_kept_for_a_model_that_cannot_be_loaded_this_time(serve, monkeypatch):
    server = serve()
    server.do(Scale(model="digits", replicas=4, version="1.0"))
    (model,) = server.registry
    restored = type(model)(server.registry, 7, model.source, print)
    restored.restore(model.saved)

    assert restored.saved.default.scaled == {"": 4}


def test_the_configuration_begins_with_the_number_for_all_versions(serve):
    """What was swapped in with a number of its own is gone."""
    server = serve()
    server.do(Scale(model="digits", replicas=4))
    server.do(Swap(model="digits", source="/digits-2.0", settings={"replicas": 2}, **QUICK))
    (saved,) = server.registry.saved
    saved.default.source = VersionSource("/digits-2.0:broken", "digits", {"replicas": 2})

    assert served(serve([saved])) == [("1.0", "/digits-1.0", 4)]


# ---------------------------------------------------------------- versions besides the default


def saved_with(*others):
    """Return the state of a server that had the versions *others* besides the default."""
    default = SavedVersion(VersionSource("/digits-1.0", "digits"), "1.0")
    configured = "digits=/digits-1.0"
    return [SavedModel(configured=configured, name="digits", default=default, others=[*others])]


OLD = SavedVersion(VersionSource("/digits-2.0:old", "digits"), "2.0")


@pytest.fixture
def mend(monkeypatch):
    """Let the source ``/digits-2.0:old`` be unreadable until this is called."""
    end, broken = FakePrepareChild._end, [":old"]

    def ending(child):
        if child._request is not None and child._request.path.endswith(tuple(broken)):
            child._request.path = "/digits-2.0:broken"
        end(child)

    monkeypatch.setattr(FakePrepareChild, "_end", ending)
    return broken.clear


def test_a_version_that_was_missing_is_loaded_by_a_reload(serve, mend):
    server = serve(saved_with(OLD))
    before = served(server)
    mend()
    server.do(ReloadModels())

    assert before == [("1.0", "/digits-1.0", 1)]
    assert served(server) == [*before, ("2.0", "/digits-2.0:old", 1)]


@pytest.mark.parametrize(
    ("operation", "default"),
    [
        pytest.param(Swap(model="digits", source="/digits-2.0", **QUICK), [], id="swap"),
        pytest.param(
            Load(model="digits", source="/digits-2.0"), [("1.0", "/digits-1.0", 1)], id="load"
        ),
    ],
)
def test_a_missing_version_is_forgotten_when_another_has_its_name(serve, mend, operation, default):
    server = serve(saved_with(OLD))
    row = server.do(operation)
    mend()
    server.do(ReloadModels())

    assert row.state == "done", row.error
    assert served(server) == [*default, ("2.0", "/digits-2.0", 1)]
    assert OLD not in server.registry.saved[0].others


def test_a_missing_version_can_be_unloaded(serve, mend):
    server = serve(saved_with(OLD))
    row = server.do(Unload(model="digits", version="2.0"))
    mend()
    server.do(ReloadModels())

    assert (row.state, row.version) == ("done", "2.0")
    assert [version for version, _, _ in served(server)] == ["1.0"]
    assert OLD not in server.registry.saved[0].others


def test_a_missing_version_is_forgotten_when_the_default_has_its_name(serve):
    (saved,) = saved_with(OLD)
    saved.default.source = VersionSource("/digits-2.0", "digits")

    assert served(serve([saved])) == [("2.0", "/digits-2.0", 1)]


def test_a_source_that_holds_the_default_version_now_is_not_served_twice(serve):
    moved = SavedVersion(VersionSource("/digits-1.0:moved", "digits"), "2.0")
    server = serve(saved_with(moved))
    notices = [each.text for each in server.reporter.notices]

    assert served(server) == [("1.0", "/digits-1.0", 1)]
    assert any("2.0: /digits-1.0:moved holds version 1.0 now" in each for each in notices)


def test_a_version_that_slept_sleeps_again(serve):
    server = serve()
    server.do(Load(model="digits", source="/digits-2.0", settings={"replicas": 0}))
    again = serve(server.registry.saved)

    assert [each.is_asleep for each in again.digits.versions] == [True]
