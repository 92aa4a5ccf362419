# SPDX-License-Identifier: Apache-2.0
"""SIGHUP reads servekit.toml again: what it says of models is applied, and no request is lost."""

import json
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from servekit_archiver import build_archive

from servekit.cli import main
from tests.waiting import wait_for_value, wait_until

MODEL = Path(__file__).parent / "models" / "deployed"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


class Configured:
    """A server and its servekit.toml."""

    def __init__(self, serve, file, text, *arguments):
        self.file = file
        file.write_text(text)
        self.server = serve("--config", file, *arguments)

    def reload(self, text):
        self.file.write_text(text)
        self.server.process.send_signal(signal.SIGHUP)

    def ask(self, name="one"):
        """Return status and prediction."""
        status, _, body = self.server.post(f"/{name}/predict", b'["MODE"]')
        return status, json.loads(body).get("prediction")

    def greeting(self, name="one"):
        status, prediction = self.ask(name)
        return prediction["options"]["greeting"] if status == 200 else None


@pytest.fixture
def configured(serve, tmp_path):
    return lambda text, *arguments: Configured(serve, tmp_path / "servekit.toml", text, *arguments)


def table(name="one", path=MODEL, **values):
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join([f"[models.{name}]", f'path = "{path}"', *lines, ""])


def greeter(text, name="one", **values):
    return table(name, **values) + f'options.greeting = "{text}"\n'


class Load:
    """Clients that ask one model until the end of a ``with``, and the statuses they got."""

    def __init__(self, configured, clients=4):
        self.statuses = Counter()
        self._configured = configured
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def _ask(self):
        while not self._end.is_set():
            try:
                status = self._configured.ask()[0]
            except OSError as error:
                status = type(error).__name__
            self.statuses[status] += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join()


def test_changed_settings_are_applied_under_load_and_no_request_is_lost(configured):
    running = configured(greeter("hello 0"))
    with Load(running) as load:
        for turn in range(1, 6):
            text = f"hello {turn}"
            running.reload(greeter(text, replicas=1 + turn % 2))
            wait_for_value(running.greeting, text, "the greeting")
        wait_until(lambda: load.statuses.total() > 50, "there are answers")

    assert set(load.statuses) == {200}


def test_another_path_is_a_new_version(configured, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for file in MODEL.iterdir():
        if file.is_file():
            (other / file.name).write_text(
                file.read_text().replace("hello", "other").replace('"deployed"\n', '"x"\n')
            )
    build_archive(other, tmp_path / "other.mar")
    running = configured(table())
    with Load(running) as load:
        running.reload(table(path="other.mar"))
        wait_for_value(running.greeting, "other", "the other archive is served")

    assert set(load.statuses) == {200}


def test_models_come_and_leave(configured):
    running = configured(table("one"))
    with Load(running) as load:
        running.reload(table("one") + greeter("two", "two"))
        wait_until(lambda: running.greeting("two") == "two", "the new model is served")
        running.reload(table("one"))
        wait_until(lambda: running.ask("two")[0] == 404, "the model is gone")
        wait_until(lambda: len(running.server.workers()) == 1, "its worker has left")

    assert set(load.statuses) == {200}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("[models", "servekit.toml: ", id="no TOML"),
        pytest.param(
            "[models.one]\npath='.'\nreplcas=2", "did you mean 'replicas'?", id="unknown key"
        ),
        pytest.param(table(path="/nowhere.mar"), "one.path: /nowhere.mar: no such", id="no file"),
        pytest.param("", "models: none given", id="no model"),
    ],
)
def test_an_invalid_file_changes_nothing_and_is_reported(configured, text, complaint):
    running = configured(greeter("hello"))
    before = running.ask()
    running.reload(text)
    said = running.server.wait_for("keeps its settings: ")

    assert complaint in said
    assert running.ask() == before


def test_settings_that_cannot_be_loaded_leave_the_old_ones(configured):
    running = configured(greeter("hello"))
    before = running.ask()
    running.reload(greeter("hi") + "stages.decode.replicas = 2\n")
    said = running.server.wait_for("cannot take over: ")

    assert "one.stages.decode: the model has no such stage" in said
    assert running.ask() == before


def test_the_same_file_starts_no_worker(configured):
    running = configured(greeter("hello"))
    before = running.ask()[1]["pid"]
    running.reload(greeter("hello") + "# a comment\n")
    running.server.wait_for("has not changed")

    assert running.ask()[1]["pid"] == before


def test_other_settings_need_a_restart_and_the_log_says_which(configured):
    running = configured(greeter("hello"))
    running.reload("queue = 7\n" + greeter("hi"))
    said = running.server.wait_for("needs a restart to change")

    assert said.endswith(" queue")
    wait_for_value(running.greeting, "hi", "settings of the model are applied")


def test_the_command_line_still_wins(configured):
    running = configured(greeter("hello"), "--set", "one.env.MODE=set")
    running.reload(greeter("hi", env={"MODE": "file"}).replace(": ", " = "))
    wait_for_value(running.greeting, "hi", "the new greeting is answered")

    assert running.ask()[1]["MODE"] == "set"


def test_changes_at_run_time_outlast_a_reload(configured, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("r")
    running = configured(table("one") + table("two"), "--run-dir", run_dir)
    assert main(["unload", "two", "--run-dir", str(run_dir)]) == 0
    assert main(["load", str(MODEL), "--name", "three", "--run-dir", str(run_dir)]) == 0
    running.reload(greeter("hello again") + table("two"))
    wait_for_value(running.greeting, "hello again", "the change is answered")

    assert (running.ask("two")[0], running.ask("three")[0]) == (404, 200)
