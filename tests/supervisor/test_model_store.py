# SPDX-License-Identifier: Apache-2.0
"""A model store beside a configuration that is read again, and at a start that fails at first."""

import pytest

from servekit.settings import Settings
from servekit.settings.models import ModelSource
from servekit.supervisor.models.reconfiguring import reconfigure
from servekit.supervisor.operations.server import OperatedServer
from servekit.supervisor.store import model_store
from servekit.supervisor.store.messages import StoreContent, StoredModel
from servekit.supervisor.store.model_store import FirstLook, ModelStore

from .in_process import InProcess

pytestmark = pytest.mark.slow

DIGITS = ModelSource("/digits-1.0", "digits")


class FakeStoreChild:
    """Tells what the test says."""

    pid = 1

    def __init__(self, loop, journal, request, on_content):
        FakeStoreChild.tell = staticmethod(on_content)


def stored_model(path):
    name, _, version = path[1:].partition(":")[0].partition("-")
    return StoredModel(name, version, path, path, 0)


class Store:
    """A store that is watched, and a server with ``digits`` in its configuration."""

    def __init__(self, server):
        self.server, self.registry = server, server.registry
        operated = OperatedServer(server.registry, server.loop, None, lambda: None)
        nothing = FirstLook(Settings(), [], [], None)
        self._store = ModelStore(operated, "/store", nothing, lambda: None)
        self._store.watch()

    def has(self, *paths):
        """Say that the store has *paths*, ``/NAME-VERSION`` and what their workers do."""
        FakeStoreChild.tell(StoreContent([stored_model(path) for path in paths]))

    def reload(self, *sources):
        """Do what SIGHUP does when the configuration names *sources*."""
        found = [*sources, *self._store.beside(sources)]
        reconfigure(self.registry, self.registry.settings, found)
        self._store.refresh()

    def wait_for(self, *served):
        self.server.until(lambda: self.rows == [*served])
        self.server.until(lambda: not any(model.work.doing for model in self.registry))
        assert self.rows == [*served]

    @property
    def rows(self):
        return [f"{row.name}/{row.version}" for row in self.registry.rows()]


@pytest.fixture
def store(monkeypatch, run_dir):
    monkeypatch.setattr(model_store, "StoreChild", FakeStoreChild)
    server = InProcess(monkeypatch, run_dir, DIGITS.path)
    yield Store(server)
    server.close()


def test_a_reload_while_a_model_loads_for_the_first_time_forgets_nothing(store):
    store.has("/two-1.0:slow")
    store.reload(DIGITS)
    assert store.rows == ["digits/1.0"]
    store.wait_for("digits/1.0", "two/1.0")
    store.reload(DIGITS)
    store.wait_for("digits/1.0", "two/1.0")
    store.has("/two-1.0:slow", "/two-2.0")
    store.wait_for("digits/1.0", "two/2.0")
    store.has()
    store.wait_for("digits/1.0")

    notices = store.server.reporter.notices
    assert [notice.event for notice in notices if notice.level == "error"] == []


def test_a_model_that_loads_for_the_first_time_gives_way_to_the_configuration(store):
    store.has("/two-1.0:slow")
    store.reload(DIGITS, ModelSource("/two-9.0", "two"))
    store.wait_for("digits/1.0", "two/9.0")
    store.has()

    store.wait_for("digits/1.0", "two/9.0")


def test_a_model_that_leaves_the_store_as_the_configuration_names_it_stays(store):
    store.has("/two-1.0")
    store.wait_for("digits/1.0", "two/1.0")
    store.registry.load(store.registry.find("two"))  # it is busy
    store.has()
    store.reload(DIGITS, ModelSource("/two-9.0", "two"))

    store.wait_for("digits/1.0", "two/9.0")


# ---------------------------------------------------------------- the start of a server


@pytest.fixture
def stored(model, tmp_path):
    """Return what puts a version into the store, and the store."""
    store = tmp_path / "store"
    store.mkdir()

    def put(name, version, act=""):
        directory = model(f"{name}-{version}", act=act)
        toml = directory / "model.toml"
        named = toml.read_text().replace(f"{name}-{version}", name, 1)
        toml.write_text(f'version = "{version}"\n{named}')
        directory.rename(store / directory.name)
        return store

    return put


@pytest.mark.parametrize("act", ["crash", "refuse"])
def test_the_start_waits_for_the_version_before_one_that_cannot_be_loaded(start, stored, act):
    stored("digits", "1.0", act="slow")
    server = start("--model-store", stored("digits", "2.0", act=act))

    assert server.wait_for("serving")["models"] == ["digits/1.0"]


def test_the_start_fails_once_no_version_can_be_loaded(start, stored):
    stored("digits", "1.0", act="crash")
    server = start("--model-store", stored("digits", "2.0", act="crash"))

    assert server.wait_exit() == 3
    assert server.messages()[-1] == "no model could be loaded"
