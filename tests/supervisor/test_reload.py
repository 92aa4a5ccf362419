# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: what has changed is loaded beside what serves, and nobody is refused meanwhile."""

import http.client
import json
import os
import resource
import signal
import threading
from collections import Counter
from pathlib import Path
from time import monotonic

import pytest

from servekit.ipc import crash_reports as crashes

from .conftest import WAIT_S, wait_until

pytestmark = pytest.mark.slow


def rewrite(directory, version, act="", **keys):
    """Make another version of a model directory."""
    lines = [f'name = "{keys.get("name", directory.name)}"', 'service = "service:S"']
    lines += [f'version = "{version}"', "[options]", f'act = "{act}"']
    lines += ["[worker]", f"load_timeout_s = {keys.get('load_timeout_s', 60)}"]
    (directory / "new").write_text("\n".join(lines))
    (directory / "new").rename(directory / "model.toml")


def serving(table):
    """Return the indexes of the replicas that serve, by version."""
    return {
        row.version: [replica.index for replica in row.replicas if replica.state == "serving"]
        for row in table.models
    }


# ---------------------------------------------------------------- the supervisor


def test_new_version_takes_the_place_of_the_old(start, model):
    directory = model()
    server = start(directory, "--replicas", "2")
    old = {server.wait_for("worker_ready", replica=n)["pid"] for n in (0, 1)}
    server.wait_for("serving")
    rewrite(directory, "2.0")
    server.signal(signal.SIGHUP)
    done = server.wait_for("model_reloaded")
    with server.control() as control:
        control.wait_for(lambda table: serving(table) == {"2.0": [2, 3]})

    assert (done["old"], done["new"]) == ("digits/1.0", "digits/2.0")
    wait_until(lambda: not any(map(exists, old)), "an old worker lives on")


def exists(pid):
    return os.path.exists(f"/proc/{pid}/fd/0")  # noqa: PTH110 - of zombies there is none


def test_what_has_not_changed_stays(start, model):
    server = start(model("one"), model("two"))
    server.wait_for("serving")
    server.signal(signal.SIGHUP)

    for name in ("one", "two"):
        server.wait_for("model_unchanged", model=name, version="1.0")
    assert len([e for e in server.events if e["event"] == "worker_ready"]) == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"act": "crash"}, "exited with 7", id="worker dies as it loads"),
        pytest.param({"act": "refuse"}, "RuntimeError: no weights", id="service cannot load"),
        pytest.param({"act": "hang", "load_timeout_s": 1}, "not ready after 1 s", id="load hangs"),
        pytest.param({"name": "other"}, "its name is other now", id="another name"),
        pytest.param({"name": "-"}, "name: '-'", id="nothing that can be prepared"),
    ],
)
def test_broken_version_changes_nothing_and_is_reported(start, model, changes, reason):
    directory = model()
    server = start(directory)
    pid = server.wait_for("worker_ready")["pid"]
    server.wait_for("serving")
    rewrite(directory, "2.0", **changes)
    server.signal(signal.SIGHUP)
    failed = server.wait_for("reload_failed")
    (run_dir,) = server.run_dir.glob("servekit-run-*")
    with server.control() as control:
        control.wait_for(lambda table: serving(table) == {"1.0": [0]})

    assert reason in failed["reason"]
    assert failed["serving"] == "digits/1.0"
    assert exists(pid)
    assert reason in crashes.read_all(run_dir)[-1].cause


def test_after_a_broken_version_a_good_one_is_loaded(start, model):
    directory = model()
    server = start(directory)
    server.wait_for("serving")
    rewrite(directory, "2.0", act="crash")
    server.signal(signal.SIGHUP)
    server.wait_for("reload_failed")
    rewrite(directory, "3.0")
    server.signal(signal.SIGHUP)

    assert server.wait_for("model_reloaded")["new"] == "digits/3.0"
    gone = [e for e in server.events if e["event"] == "worker_exited"]
    assert [event["restart_s"] for event in gone] == [None]


def test_reload_that_comes_while_another_runs_is_not_forgotten(start, model):
    directory = model()
    server = start(directory)
    server.wait_for("serving")
    rewrite(directory, "2.0", act="slow")
    server.signal(signal.SIGHUP)
    server.wait_for("progress", count=2, message="loading")
    rewrite(directory, "3.0")
    server.signal(signal.SIGHUP)

    assert server.wait_for("model_reloaded", count=2)["new"] == "digits/3.0"


def test_model_that_could_not_be_prepared_is_tried_again(start, model):
    broken = model("broken")
    (broken / "model.toml").write_text("no TOML")
    server = start(model("good"), broken)
    server.wait_for("serving")
    server.wait_for("model_failed")
    rewrite(broken, "1.0")
    server.signal(signal.SIGHUP)

    server.wait_for("worker_ready", model="broken")


def test_model_that_crashes_is_healed_by_a_good_version(start, model):
    broken = model("broken", act="crash")
    server = start(model("good"), broken)
    server.wait_for("worker_exited", model="broken", generation=2)
    rewrite(broken, "2.0")
    server.signal(signal.SIGHUP)
    server.wait_for("model_reloaded", new="broken/2.0")
    with server.control() as control:
        control.wait_for(lambda table: serving(table) == {"1.0": [0], "2.0": [1]})


def test_reload_without_descriptors_fails_alone_and_is_possible_again(start, model):
    directory = model()
    server = start(directory)
    server.wait_for("serving")
    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    rewrite(directory, "2.0")
    resource.prlimit(
        pid, resource.RLIMIT_NOFILE, (len(list(Path(f"/proc/{pid}/fd").iterdir())), before[1])
    )
    server.signal(signal.SIGHUP)
    failed = server.wait_for("reload_failed")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    server.signal(signal.SIGHUP)

    assert "Too many open files" in failed["reason"]
    server.wait_for("model_reloaded", new="digits/2.0")


def add_route(directory, path="/v1/x"):
    toml = directory / "model.toml"
    toml.write_text(f'{toml.read_text()}\n[routes."{path}"]\nsteps = ["predict"]\n')


def test_a_version_that_wants_the_path_of_another_model_does_not_take_over(start, model):
    one, two = model("one"), model("two")
    add_route(one)
    server = start(one, two)
    server.wait_for("serving")
    rewrite(two, "2.0")
    add_route(two)
    server.signal(signal.SIGHUP)
    failed = server.wait_for("reload_failed")

    assert failed["reason"] == "the path /v1/x belongs to a route of one"
    assert (failed["subject"], failed["serving"]) == ("two/2.0", "two/1.0")
    (run_dir,) = server.run_dir.glob("servekit-run-*")
    assert crashes.read_all(run_dir)[-1].cause == failed["reason"]
    with server.control() as control:
        control.wait_for(lambda table: [row.version for row in table.models] == ["1.0", "1.0"])
    rewrite(two, "3.0")
    add_route(two, "/v1/y")
    server.signal(signal.SIGHUP)
    assert server.wait_for("model_reloaded")["new"] == "two/3.0"


def test_a_model_that_comes_late_does_not_take_a_path_in_silence(start, model):
    one, two = model("one"), model("two")
    add_route(one)
    (two / "model.toml").write_text("no TOML")
    server = start(one, two)
    server.wait_for("serving")
    rewrite(two, "1.0")
    add_route(two)
    server.signal(signal.SIGHUP)
    server.wait_for("worker_ready", model="two")

    def problems(table):
        return {row.name: [route.problem for route in row.routes] for row in table.models}

    with server.control() as control:
        control.wait_for(
            lambda table: (
                problems(table) == {"one": [""], "two": ["already belongs to a route of one"]}
            )
        )


def test_a_version_is_in_the_table_when_the_log_says_so(start, model):
    directory = model()
    server = start(directory)
    server.wait_for("serving")
    with server.control() as control:
        rewrite(directory, "2.0")
        server.signal(signal.SIGHUP)
        server.wait_for("model_reloaded")

        assert control.tables_there()[-1].models[0].version == "2.0"


def test_a_stop_while_a_version_loads_is_not_delayed(start, model, run_dir):
    directory = model()
    server = start(directory)
    server.wait_for("serving")
    rewrite(directory, "2.0", act="hang")
    server.signal(signal.SIGHUP)
    server.wait_for("progress", count=2, message="loading")
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0
    assert list(run_dir.iterdir()) == []


# ---------------------------------------------------------------- the clients

SERVICE = """
from servekit import Service

class S(Service):
    def load(self, context):
        self.version = context.version
        if self.version.endswith("broken"):
            raise RuntimeError("no weights")

    def predict(self, batch):
        return [[self.version, item] for item in batch]
"""


JSON = {"Content-Type": "application/json"}
INTERVAL_S = 0.05


class Client(threading.Thread):
    """Asks at fixed moments, whatever the answers take; remembers status and version."""

    def __init__(self, port, number, *, keeps_alive):
        super().__init__(daemon=True)
        self.number, self.keeps_alive = number, keeps_alive
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        self.seen, self.wrong = Counter(), []
        self.ends = threading.Event()

    def run(self):
        at, turn = monotonic(), 0
        while not self.ends.wait(max(0.0, at - monotonic())):
            at, turn = at + INTERVAL_S, turn + 1
            try:
                version = self.ask([self.number, turn])
            except (OSError, http.client.HTTPException, AssertionError) as error:
                self.wrong.append(error)
                self.connection.close()
            else:
                self.seen[version] += 1
        self.connection.close()

    def ask(self, item):
        """Return the version that answered."""
        self.connection.request("POST", "/digits/predict", json.dumps(item), JSON)
        answer = self.connection.getresponse()
        body = answer.read()
        if not self.keeps_alive:
            self.connection.close()
        assert answer.status == 200, body
        version, echoed = json.loads(body)["prediction"]
        assert echoed == item
        return version


def has_seen(clients, version):
    return any(client.seen[version] for client in clients)


@pytest.mark.e2e
def test_rolling_reloads_under_load_cost_nobody_an_answer(start, model):
    directory = model()
    (directory / "service.py").write_text(SERVICE)
    server = start(directory, "--replicas", "2", stand_ins={})
    port = int(server.wait_for("serving")["url"].rpartition(":")[2])
    clients = [Client(port, number, keeps_alive=number % 2) for number in range(5)]
    for client in clients:
        client.start()
    wait_until(lambda: has_seen(clients, "1.0"), "nobody is answered")
    for turn in range(1, 5):
        rewrite(directory, f"{turn}.broken" if turn % 3 == 0 else f"{turn}.good")
        server.signal(signal.SIGHUP)
        if turn % 3 == 0:
            server.wait_for("reload_failed")
        else:
            server.wait_for("model_reloaded", new=f"digits/{turn}.good")
            wait_until(lambda n=turn: has_seen(clients, f"{n}.good"), "nobody asks it")
    for client in clients:
        client.ends.set()
        client.join(WAIT_S)
    seen = sum((client.seen for client in clients), Counter())

    assert [client.wrong for client in clients] == [[]] * len(clients)
    assert seen.keys() >= {"1.0", "1.good", "2.good", "4.good"}
    assert not any(version.endswith("broken") for version in seen)
