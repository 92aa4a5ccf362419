# SPDX-License-Identifier: Apache-2.0
"""A server follows its model store: archives appear, change, disappear, wait, and are broken."""

import json
import os
import signal
from pathlib import Path

import pytest
from servekit_archiver import build_archive

from tests.waiting import wait_for_value

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
SERVICE = """\
from servekit import Service


class Greeter(Service):
    def load(self, context):
        {load}

    def predict(self, batch):
        return ["{text}" for _ in batch]
"""


class Store:
    """A directory of archives, and the server that serves it."""

    def __init__(self, serve, directory: Path):
        self._serve = serve
        self._built = directory / "built.mar"
        self._source = directory / "source"
        self._source.mkdir()
        self.directory = directory / "store"
        self.directory.mkdir()

    def build(self, name: str, version: str, text: str, load: str = "pass") -> bytes:
        (self._source / "model.toml").write_text(
            f'name = "{name}"\nversion = "{version}"\nservice = "service:Greeter"\n'
        )
        (self._source / "service.py").write_text(SERVICE.format(text=text, load=load))
        build_archive(self._source, self._built, force=True)
        return self._built.read_bytes()

    def put(self, file: str, content: bytes) -> Path:
        """Write *content* under another name and rename it, as careful tools do."""
        path = self.directory / file
        (self.directory / f".{file}").write_bytes(content)
        (self.directory / f".{file}").rename(path)
        return path

    def start(self, *arguments):
        self.server = self._serve("--model-store", self.directory, *arguments)
        return self.server

    def ask(self, name: str) -> object:
        """Return the prediction, or the status of an error."""
        status, _, body = self.server.post(f"/{name}/predict", b'["x"]')
        return json.loads(body)["prediction"] if status == 200 else status

    def wait_for(self, name: str, answer: object) -> None:
        wait_for_value(lambda: self.ask(name), answer, f"the answer of {name}")


@pytest.fixture
def store(serve, tmp_path):
    return Store(serve, tmp_path)


def test_archives_appear_change_and_disappear(store):
    store.put("one.mar", store.build("one", "1.0", "first"))
    server = store.start("--watch")
    assert store.ask("one") == "first"

    store.put("two.mar", store.build("two", "1.0", "second"))
    store.wait_for("two", "second")
    store.put("one.mar", store.build("one", "1.1", "changed"))
    store.wait_for("one", "changed")
    store.put("one-2.mar", store.build("one", "2.0", "newer"))
    store.wait_for("one", "newer")
    (store.directory / "one-2.mar").unlink()
    store.wait_for("one", "changed")
    (store.directory / "two.mar").unlink()
    store.wait_for("two", 404)

    assert store.ask("one") == "changed"
    server.wait_for("two has left the model store")


def test_an_empty_store_is_served_and_filled_later(store):
    store.start("--watch")
    store.put("one.mar", store.build("one", "1.0", "first"))

    store.wait_for("one", "first")


def test_a_half_written_archive_waits_until_it_is_complete(store):
    server, content = store.start("--watch"), store.build("one", "1.0", "first")
    with (store.directory / "one.mar").open("wb") as file:
        file.write(content[:-100])
        file.flush()
        server.wait_for("waits until it is complete")
        assert store.ask("one") == 404
        file.write(content[-100:])
    store.wait_for("one", "first")

    assert server.output.count("waits until it is complete") == 1


def test_broken_archives_change_nothing_and_are_said_once(store):
    store.put("one.mar", store.build("one", "1.0", "first"))
    server = store.start("--watch")
    good = store.build("one", "2.0", "second")
    store.put("one-2.mar", bytes(len(good) // 2) + good[len(good) // 2 :])
    server.wait_for("one-2.mar changes nothing")
    store.put("one-3.mar", store.build("one", "3.0", "third", "raise RuntimeError('no weights')"))
    server.wait_for("no weights (service.py:6); one/1.0 still serves")
    store.put("two.mar", store.build("two", "1.0", "", "raise RuntimeError('no luck')"))
    server.wait_for("two cannot be loaded")

    store.wait_for("two", 404)
    assert store.ask("one") == "first"
    wait_for_value(lambda: server.get("/ping")[0], 200, "the status of the server")
    store.put("two.mar", store.build("two", "1.1", "repaired"))
    store.wait_for("two", "repaired")
    assert server.output.count("one/1.0 still serves") == 1
    assert server.output.count("changes nothing") == 1


def test_a_restart_with_a_broken_newer_archive_serves_the_one_before(store):
    store.put("one.mar", store.build("one", "1.0", "first"))
    store.put("one-2.mar", store.build("one", "2.0", "second", "raise RuntimeError('no')"))
    store.start("--watch")

    store.wait_for("one", "first")


def test_without_watch_a_reload_reads_the_store_again(store):
    store.put("one.mar", store.build("one", "1.0", "first"))
    server = store.start()
    (store.directory / "one.mar").unlink()
    store.put("two.mar", store.build("two", "1.0", "second"))
    server.process.send_signal(signal.SIGHUP)
    store.wait_for("two", "second")
    store.wait_for("one", 404)


def test_the_command_line_wins_over_the_store(store, tmp_path):
    store.put("one.mar", store.build("one", "2.0", "of the store"))
    given = tmp_path / "given.mar"
    given.write_bytes(store.build("one", "1.0", "given"))
    server = store.start("--watch", "--models", given)

    assert store.ask("one") == "given"
    server.wait_for("one.mar is not served: one is configured")


def test_what_was_changed_at_run_time_survives_a_restart(store, run):
    store.put("one.mar", store.build("one", "1.0", "first"))
    store.put("two.mar", store.build("two", "1.0", "second"))
    server = store.start("--watch")
    pid = ("--pid", server.process.pid)
    assert run("servekit", "scale", "one", "2", *pid).returncode == 0
    assert run("servekit", "unload", "two", *pid).returncode == 0
    store.wait_for("two", 404)
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    server = store.start("--watch")

    assert (store.ask("one"), store.ask("two")) == ("first", 404)
    server.wait_for("replicas all = 2")
    server.wait_for("two was unloaded at run time")
    store.put("two.mar", store.build("two", "1.1", "put again"))
    store.put("one.mar", store.build("one", "1.1", "changed"))
    store.wait_for("one", "changed")
    assert store.ask("two") == 404
