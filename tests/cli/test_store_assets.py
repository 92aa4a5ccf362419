# SPDX-License-Identifier: Apache-2.0
"""A service that makes its assets: the first time, on another machine, and in a server."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from servekit_archiver import build_archive

from servekit.testing import ServedModel
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

WAIT_S = 60.0
SERVICE = """
import json
import os

from servekit import Service

print("imported", flush=True)

class Toy(Service):
    def load(self, context):
        self.words = json.loads((context.asset("words") / "en.json").read_text())
        self.size = context.asset("big").stat().st_size

    def store_assets(self, directory):
        print("made in", os.getpid(), flush=True)
        (directory / "words").mkdir(exist_ok=True)
        (directory / "words" / "en.json").write_text(json.dumps({"hello": "hi"}))
        (directory / "words" / "notes").write_text("x")
        (directory / "big.bin").write_bytes(bytes(1000))

    def predict(self, batch):
        return [[self.words[item], self.size] for item in batch]
"""
TOML = """# mine
name = "toy"
service = "service:Toy"

[assets.words]   # a folder

[assets."big"]
file = "big.bin"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"

[[examples]]
input = "hello"
"""


@pytest.fixture
def model(tmp_path):
    directory = tmp_path / "toy"
    directory.mkdir()
    (directory / "service.py").write_text(SERVICE)
    (directory / "model.toml").write_text(TOML)
    return directory


@pytest.fixture
def assets(tmp_path):
    """Return ``assets(*arguments)``, which runs the command with a cache of its own."""

    def run(*arguments, cache="cache"):
        command = [sys.executable, "-m", "servekit.cli", "assets", *map(str, arguments)]
        return subprocess.run(
            [*command, "--cache-dir", str(tmp_path / cache)],
            capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip

    return run


def test_first_time_another_machine_and_in_a_server(model, assets, tmp_path):
    before = assets(model, "--offline")
    first = assets(model, "--write")
    written = (model / "model.toml").read_text()
    build_archive(model, tmp_path / "toy.mar")
    again = assets(model)
    other = assets(tmp_path / "toy.mar", "--json", cache="other")
    with ServedModel(tmp_path / "toy.mar", cache_dir=tmp_path / "other") as served:
        answer = served.wait_ready().predict("hello").prediction

    assert (before.returncode, "assets.words.sha256: is missing" in before.stderr) == (3, True)
    assert "servekit assets DIR --write finds it out" in before.stderr
    assert first.returncode == 0, first.stderr
    digest = hashlib.sha256(bytes(1000)).hexdigest()
    assert written == TOML.replace("0" * 64, digest).replace(
        "# a folder\n", f'# a folder\nsha256 = "{tree(tmp_path / "cache")}"\n'
    )
    assert (again.returncode, again.stderr) == (0, "")  # nothing is made anew
    assert other.returncode == 0, other.stderr
    assert [entry["error"] for entry in json.loads(other.stdout)] == ["", ""]
    assert "made in" in other.stderr  # prints are no part of the answer
    assert answer == ["hi", 1000]


def tree(cache):
    (words,) = (path.parent.name for path in cache.glob("assets/*/asset"))
    return words


def test_a_server_makes_them_when_it_is_told_to(model, assets, tmp_path):
    assets(model, "--write")
    with ServedModel(model, cache_dir=tmp_path / "new", fetch_assets=True) as served:
        assert served.wait_ready().predict("hello").prediction == ["hi", 1000]


def test_another_content_is_a_problem_of_one_line(model, assets):
    assets(model, "--write")
    right = tomllib.loads((model / "model.toml").read_text())["assets"]["words"]["sha256"]
    changed = (model / "service.py").read_text().replace('"hi"', '"hello"')
    (model / "service.py").write_text(changed)
    done = assets(model, cache="other")
    taken = assets(model, "--write", cache="other")

    assert done.returncode == 1
    assert "words  words: store_assets made" in done.stdout
    assert f"(2 files), expected {right}\n" in done.stdout
    assert taken.returncode == 0
    assert right not in (model / "model.toml").read_text()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("(directory /", "(nowhere /"), "NameError: name 'nowhere' is not defined (service.py:"),
        (
            ("def store_assets", "def other"),
            "Toy has no store_assets(directory), and big, words no",
        ),
        (("os.getpid()", "os._exit(7)"), "store_assets: exited with 7"),
        (("os.getpid()", "exit()"), "SystemExit"),
    ],
)
def test_what_fails_is_told_with_its_line(model, assets, change, complaint):
    (model / "service.py").write_text(SERVICE.replace(*change, 1))
    done = assets(model, "--write")

    assert done.returncode == 1
    assert complaint in done.stdout
    assert "Traceback" not in done.stderr
    assert (model / "model.toml").read_text() == TOML


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ('[assets]\nwords = { file = "words" }\nbig = {}\n', "write it yourself: [assets.words]"),
        ("[assets.words]\nsha = 1\n", "assets.words.sha: unknown key; did you mean sha256?"),
        ("[assets.words\n", "is not TOML"),
        ("assets = 3\n", "assets: 3 is a number, not a table"),
    ],
)
def test_a_file_that_cannot_be_written_stays_and_says_what_to_do(model, assets, toml, complaint):
    service = SERVICE.replace("big.bin", "big")
    (model / "service.py").write_text(service)
    (model / "model.toml").write_text(f'name = "m"\nservice = "service:Toy"\n{toml}')
    done = assets(model, "--write")

    assert (done.returncode, complaint in done.stderr) == (3, True), done.stderr
    assert (model / "model.toml").read_text().endswith(toml)


def test_write_needs_a_directory(assets, tmp_path):
    done = assets(tmp_path / "toy.mar", "--write")

    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert "toy.mar: --write needs a model directory with a model.toml" in done.stderr


def test_the_first_digest_of_a_url_is_written_too(model, assets, tmp_path):
    (tmp_path / "w.txt").write_bytes(b"3 1 4")
    url = (tmp_path / "w.txt").as_uri()
    (model / "model.toml").write_text(f'name = "m"\nservice = "sklearn"\n[assets.w]\nurl = "{url}"')
    first = assets(model, "--write")
    (tmp_path / "w.txt").unlink()
    again = assets(model)

    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    assert first.stdout == again.stdout
    asset = tomllib.loads((model / "model.toml").read_text())["assets"]["w"]
    assert asset == {"url": url, "sha256": hashlib.sha256(b"3 1 4").hexdigest()}


def test_a_command_that_is_ended_leaves_nobody_and_the_next_goes_on(model, assets, tmp_path):
    slow = "(directory / 'pid').write_text(str(os.getpid()))\n        import time; time.sleep(60)"
    text = SERVICE.replace('(directory / "big.bin")', f"{slow}\n        (directory / 'big.bin')")
    (model / "service.py").write_text(text)
    command = [sys.executable, "-m", "servekit.cli", "assets", model, "--write"]
    process = subprocess.Popen(
        [*command, "--cache-dir", tmp_path / "cache"],
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    (note,) = wait_until(
        lambda: [p for p in tmp_path.glob("cache/assets/*/pid") if p.read_text()], "a pid is noted"
    )
    pid = int(note.read_text())
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=WAIT_S)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"{pid} has ended")

    assert process.returncode == 130
    assert b"Traceback" not in told
    assert (note.parent / "words" / "en.json").exists()
