# SPDX-License-Identifier: Apache-2.0
"""``servekit assets`` fetches; ``servekit start`` finds, or says what to run."""

import hashlib
import json
import shlex
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from servekit_archiver import build_archive

from servekit.testing import ServedModel
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

WAIT_S = 60.0
WEIGHTS = b"3 1 4"
BIG = bytes(range(256)) * 8192
SERVICE = """
from servekit import Service

class Toy(Service):
    def load(self, context):
        self.weights = [int(word) for word in context.asset("weights").read_text().split()]

    def predict(self, batch):
        return [sum(w * x for w, x in zip(self.weights, item)) for item in batch]
"""


@pytest.fixture
def archive(tmp_path):
    """An archive whose weights are a file elsewhere."""
    directory = tmp_path / "toy"
    directory.mkdir()
    (tmp_path / "w.txt").write_bytes(WEIGHTS)
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    (directory / "service.py").write_text(SERVICE)
    (directory / "model.toml").write_text(
        'name = "toy"\nservice = "service:Toy"\n\n[assets.weights]\n'
        f'url = "{(tmp_path / "w.txt").as_uri()}"\nsha256 = "{digest}"\n'
        "[[examples]]\ninput = [1, 1, 1]\noutput = 8\n"
    )
    build_archive(directory, tmp_path / "toy.mar")
    return tmp_path / "toy.mar"


@pytest.fixture
def servekit(tmp_path):
    def run(*arguments):
        command = [sys.executable, "-m", "servekit.cli", *map(str, arguments)]
        return subprocess.run(
            [*command, "--cache-dir", str(tmp_path / "cache")],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )

    return run


def test_fetched_once_then_served_without_the_source(archive, servekit, tmp_path):
    before = servekit("assets", archive, "--offline")
    fetched = servekit("assets", archive)
    (tmp_path / "w.txt").unlink()
    (entry,) = json.loads(servekit("assets", archive, "--json").stdout)
    with ServedModel(archive, cache_dir=tmp_path / "cache") as served:
        prediction = served.wait_ready().predict([1, 0, 2]).prediction

    assert (before.returncode, before.stdout) == (1, "weights  not in the cache\n")
    assert (fetched.returncode, entry["error"]) == (0, "")
    assert fetched.stdout == f"weights  {entry['path']}\n"
    assert fetched.stderr.startswith(f"weights: fetching file://{tmp_path}/w.txt\nweights: fetched")
    assert prediction == 11


def test_a_server_fetches_nothing_and_says_what_to_run(archive, servekit, tmp_path):
    refused = servekit("start", archive, "--port", "0")
    (line,) = refused.stderr.splitlines()
    told, _, command = line.partition("; run: ")

    assert refused.returncode == 3
    assert told == "toy cannot be loaded: assets: weights is not in the cache"
    assert shlex.split(command) == [
        "servekit", "assets", str(archive), "--cache-dir", str(tmp_path / "cache")
    ]  # fmt: skip


def test_a_server_fetches_when_it_is_told_to(archive, tmp_path):
    cache = tmp_path / "cache"
    with ServedModel(archive, cache_dir=cache, fetch_assets=True) as served:
        assert served.wait_ready().predict([1, 0, 2]).prediction == 11


def test_what_cannot_be_fetched_is_a_problem_of_one_line(archive, servekit, tmp_path):
    (tmp_path / "w.txt").write_text("another content")
    done = servekit("assets", archive)

    assert done.returncode == 1
    assert f"weights  file://{tmp_path}/w.txt: its SHA-256 is" in done.stdout


def test_a_model_that_is_refused_is_status_3(servekit, tmp_path):
    done = servekit("assets", tmp_path / "nowhere.mar")

    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)


class Stalling(BaseHTTPRequestHandler):
    """Sends half of the content and stops there, until it is asked for the rest."""

    def do_GET(self):
        asked = self.headers.get("Range", "bytes=0-")
        self.server.asked.append(asked)
        start = int(asked[6:-1])
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(BIG) - start))
        self.end_headers()
        self.wfile.write(BIG[start:] if start else BIG[: len(BIG) // 2])
        if not start:
            self.server.go_on.wait(WAIT_S)

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture
def store():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stalling)
    server.asked, server.go_on = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.go_on.set()
    server.shutdown()
    server.server_close()
    thread.join(WAIT_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_ended_goes_on_with_the_next(store, tmp_path, servekit, number):
    digest = hashlib.sha256(BIG).hexdigest()
    (tmp_path / "model.toml").write_text(
        'name = "m"\nservice = "sklearn"\n[assets.big]\n'
        f'url = "http://127.0.0.1:{store.server_address[1]}/big"\nsha256 = "{digest}"\n'
    )
    command = [sys.executable, "-m", "servekit.cli", "assets", tmp_path]
    process = subprocess.Popen([*command, "--cache-dir", tmp_path / "cache"])
    part = tmp_path / "cache" / "assets" / f"{digest}.part"
    wait_until(lambda: part.exists() and part.stat().st_size == len(BIG) // 2, "half has come")
    process.send_signal(number)
    status = process.wait(WAIT_S)
    again = servekit("assets", tmp_path)

    assert status == (130 if number == signal.SIGINT else -9)
    assert (again.returncode, part.exists()) == (0, False)
    assert store.asked == ["bytes=0-", f"bytes={len(BIG) // 2}-"]
