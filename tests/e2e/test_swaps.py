# SPDX-License-Identifier: Apache-2.0
"""Models that change while people use them: every answer is a good one of exactly one version."""

import http.client
import json
import os
import shutil
import signal
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from time import monotonic

import pytest
from servekit_archiver import build_archive

from servekit.extension import UnixConnection
from tests.waiting import wait_until

from .conftest import WAIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """
from itertools import count
from servekit import Service

class S(Service):
    def load(self, context):
        self.version, self.turns = context.version, count(1)
        if "crash" in self.version:
            raise RuntimeError("no weights")

    def predict(self, batch):
        if "errs" in self.version and next(self.turns) > 2 and next(self.turns) % 5 == 0:
            raise RuntimeError("a bug that only real requests meet")
        return [[self.version, item] for item in batch]
"""
EXAMPLE = '[[examples]]\ninput = 1\noutput = ["{version}", 1]\n'
WRONG = '[[examples]]\ninput = 1\noutput = ["another", 1]\n'
CLIENTS = 10
INTERVAL_S = 0.1  #: of each client: 100 requests per second in all


class Client(threading.Thread):
    """Asks at fixed moments; remembers when it got which status of which version."""

    def __init__(self, port, expected):
        super().__init__(daemon=True)
        self.expected = expected
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        self.seen, self.wrong = [], []
        self.ends = threading.Event()

    def run(self):
        at = monotonic()
        while not self.ends.wait(max(0.0, at - monotonic())):
            at += INTERVAL_S
            try:
                self.ask(len(self.seen))
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(repr(error))
                self.connection.close()
        self.connection.close()

    def ask(self, number):
        headers = {"Content-Type": "application/json"}
        self.connection.request("POST", "/digits/predict", json.dumps([number]), headers)
        answer = self.connection.getresponse()
        body, version = answer.read(), answer.headers.get("X-Model-Version", "")
        self.seen.append((monotonic(), answer.status, version))
        if answer.status == 200 and (
            json.loads(body)["prediction"] != self.expected(version, number)
        ):
            self.wrong.append(f"{version}: {body!r}")


class Clients:
    """Clients that ask as long as a ``with`` lasts."""

    def __init__(self, server, expected=lambda version, number: [version, [number]]):
        self.clients = [Client(server.port, expected) for _ in range(CLIENTS)]

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.ends.set()
        for client in self.clients:
            client.join(WAIT_S)

    @property
    def seen(self):
        """Return the moment, status and version of each response."""
        return sorted(each for client in self.clients for each in client.seen)

    @property
    def wrong(self):
        """Return the connections that failed, and bodies of another version than the header."""
        return [each for client in self.clients for each in client.wrong]


class Management(UnixConnection):
    """The private socket of a server."""

    def __init__(self, path, wait_s=50):
        super().__init__(path, WAIT_S)
        self.path, self._wait_s = path, wait_s  #: for the end of each operation

    def do(self, method, path, **body):
        """Carry out an operation, and return its row; its error if it is refused."""
        target, headers = f"{path}?wait={self._wait_s}", {"Content-Type": "application/json"}
        self.request(method, target, json.dumps(body), headers)
        answer = self.getresponse()
        return json.loads(answer.read())


@pytest.fixture
def archive(tmp_path):
    """Build versions of ``digits``; *broken* says in what way."""

    def build(version, broken=""):
        directory = tmp_path / version
        directory.mkdir()
        (directory / "service.py").write_text(SERVICE)
        lines = [
            'name = "digits"',
            'service = "service:S"',
            f'version = "{version}"',
            "retry = true",
        ]
        if broken == "requirement":
            (directory / "requirements.txt").write_text("msgspec==0.0.1\n")
            lines.append('requirements = "requirements.txt"')
        lines.append(WRONG if broken == "example" else EXAMPLE.format(version=version))
        (directory / "model.toml").write_text("\n".join(lines))
        path = Path(build_archive(directory, tmp_path / f"{version}.mar").path)
        if broken == "digest":
            content = bytearray(path.read_bytes())
            content[content.index(b"service.py") + 40] ^= 1
            path.write_bytes(content)
        return path

    build.path = lambda version: tmp_path / f"{version}.mar"
    return build


@pytest.fixture
def run_dir():
    """Make a short path: those of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="sk", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture
def served(serve, archive, run_dir):
    """Serve version 1, and return the server and its management."""
    server = serve("--models", f"digits={archive('1')}", "--run-dir", run_dir)
    (path,) = run_dir.glob("servekit-run-*/manage.sock")
    management = Management(path)
    yield server, management
    management.close()
    server.stop()


BROKEN = {
    "digest": "entry 'service.py'",
    "crash": "no weights",
    "example": "example 1",
    "requirement": "msgspec",
}


def test_twenty_swaps_at_100_requests_per_second_cost_no_request(served, archive):
    server, management = served
    kinds = [*BROKEN] * 2
    with Clients(server) as load:
        for number in range(2, 22):
            broken = kinds.pop() if number % 3 == 0 else ""
            version = f"{number}{broken and '-' + broken}"
            row = management.do(
                *("POST", "/models/digits/swap"),
                source=str(archive(version, broken)),
                shift=[50],
                step_s=0.3,
                watch_s=0.3,
                keep_s=0.0,
            )
            if broken:
                assert BROKEN[broken] in row["detail" if "detail" in row else "error"], row
            else:
                assert (row["state"], row["version"]) == ("done", version), row
    versions = {version for _, _, version in load.seen}

    assert load.wrong == []
    assert {status for _, status, _ in load.seen} == {200}
    assert len(versions) == 14
    assert not any("-" in version for version in versions)


def test_a_version_that_errs_after_it_has_loaded_is_rolled_back(served, archive):
    server, management = served
    with Clients(server) as load:
        row = management.do(
            *("POST", "/models/digits/swap"),
            source=str(archive("2-errs")),
            shift=[50],
            step_s=30.0,
        )
    errors = [at for at, status, _ in load.seen if status == 500]

    assert "rolled back to 1" in str(row), row
    assert load.wrong == []
    assert {version for _, status, version in load.seen if status != 200} == {"2-errs"}
    assert errors[-1] - errors[2] < 2.0, "three errors cross the bound"


def test_scale_up_and_down_under_load_costs_no_request(served):
    server, management = served
    with Clients(server) as load:
        for replicas in (4, 1):
            row = management.do("PUT", "/models/digits", replicas=replicas)
            assert row["state"] == "done", row
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(load.seen)]

    assert load.wrong == []
    assert {status for _, status, _ in load.seen} == {200}
    assert max(gaps) < 5.0
    assert len(server.workers()) == 1


def test_one_by_one_under_load_costs_no_request(served, archive):
    server, management = served
    with Clients(server) as load:
        management.do("PUT", "/models/digits", replicas=3)
        row = management.do(
            *("POST", "/models/digits/swap"),
            source=str(archive("2")),
            one_by_one=True,
            step_s=0.3,
            watch_s=0.3,
        )
    by_version = {version: at for at, _, version in load.seen}

    assert (row["state"], row["version"]) == ("done", "2"), row
    assert load.wrong == []
    assert {status for _, status, _ in load.seen} == {200}
    assert by_version["1"] < by_version["2"]


def test_fifty_hang_ups_and_kills_of_workers_cost_no_request(served, archive):
    server, management = served
    management.do("PUT", "/models/digits", replicas=2)
    pause = threading.Event()
    with Clients(server) as load:
        for turn in range(50):
            if turn % 10 == 5:  # the archive that is served has changed
                archive(f"1.{turn}").replace(archive.path("1"))
            if turn % 10 == 7:
                os.kill(server.workers()[0], signal.SIGKILL)
            server.process.send_signal(signal.SIGHUP)
            pause.wait(0.15)
        wait_until(lambda: "1.45" in {version for _, _, version in load.seen}, "the last version")

    assert load.wrong == []
    assert {status for _, status, _ in load.seen} == {200}


STAGES = """
from servekit import Service

class Stage(Service):
    def load(self, context):
        self.version = context.version

    def predict(self, batch):
        return [[*item, self.version] for item in batch]
"""


def test_no_request_of_a_pipeline_meets_two_versions(serve, tmp_path, run_dir):
    directory = tmp_path / "digits"
    directory.mkdir()
    (directory / "service.py").write_text(STAGES)
    lines = ['name = "digits"', 'version = "1"', 'pipeline = ["one", "two"]']
    lines += [f'[stages.{name}]\nservice = "service:Stage"' for name in ("one", "two")]
    (directory / "model.toml").write_text("\n".join(lines))
    second = Path(shutil.copytree(directory, tmp_path / "second"))
    (second / "model.toml").write_text("\n".join(lines).replace('"1"', '"2"'))
    server = serve("--models", directory, "--run-dir", run_dir)
    management = Management(next(run_dir.glob("servekit-run-*/manage.sock")))
    with Clients(server, lambda version, number: [number, version, version]) as load:
        scaled = management.do("PUT", "/models/digits", replicas=2, stage="two")
        swapped = management.do(
            *("POST", "/models/digits/swap"),
            source=str(second),
            shift=[50],
            step_s=0.5,
            watch_s=0.5,
            keep_s=0.0,
        )
        down = management.do("PUT", "/models/digits", replicas=1)
    management.close()
    server.stop()

    assert [row["state"] for row in (scaled, swapped, down)] == ["done"] * 3, (swapped, down)
    assert load.wrong == []
    assert {status for _, status, _ in load.seen} == {200}
    assert {version for _, _, version in load.seen} == {"1", "2"}
