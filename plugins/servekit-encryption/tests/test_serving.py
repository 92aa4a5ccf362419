# SPDX-License-Identifier: Apache-2.0
"""An encrypted archive is prepared in memory, and nothing of it reaches a disk."""

import os
import subprocess
import sys
from pathlib import Path
from signal import SIGHUP
from tempfile import TemporaryDirectory
from threading import Event
from time import time
from uuid import uuid4

import pytest
from servekit_archiver import build_archive
from servekit_archiver.cli import main

from servekit.extension import Policy
from servekit.hookspecs import hookimpl
from servekit.plugins import create_plugin_manager
from servekit.settings.archive_keys import key_id
from servekit.supervisor.os.memory_directory import memory_twin
from servekit.supervisor.os.run_directory import remove_with_twin
from servekit.supervisor.preparing.messages import PrepareRequest
from servekit.supervisor.preparing.prepare import answer
from servekit.testing import ServedModel

pytestmark = pytest.mark.slow

KEY = bytes(range(32))
STARTED_AT = time()
MARKER = f"the-secret-of-this-model-{uuid4()}"
SERVICE = f"""
from pathlib import Path
from servekit import Service

class Secret(Service):
    def load(self, context):
        self.weights = context.load_array("weights.npy")
        self.text = Path(context.directory, "labels.txt").read_text()

    def predict(self, batch):
        return [len(self.text) + int(self.weights.sum()) for _ in batch]  # {MARKER}
"""


@pytest.fixture
def model(tmp_path):
    import numpy as np

    directory = tmp_path / "plain" / "secret"
    directory.mkdir(parents=True)
    (directory / "model.toml").write_text('name = "secret"\nservice = "service:Secret"\n')
    (directory / "service.py").write_text(SERVICE)
    (directory / "labels.txt").write_text(MARKER * 10)
    np.save(directory / "weights.npy", np.ones(1000))
    return directory


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY.hex() + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def encrypted(model, key, tmp_path):
    """The encrypted archive; the other forms are gone."""
    import shutil

    archive = build_archive(model, tmp_path / "plain" / "secret.mar").path
    output = tmp_path / "secret.mar.enc"
    assert main(["encrypt", str(archive), "--key-file", str(key), "-o", str(output)]) == 0
    shutil.rmtree(tmp_path / "plain")
    return output


@pytest.fixture
def prepare(tmp_path):
    run_dir = tmp_path / f"servekit-run-{os.getpid()}"
    run_dir.mkdir()

    def run(path, *keys, **more):
        request = PrepareRequest(
            str(path), cache_dir=str(tmp_path / "cache"), scratch=str(run_dir / "archives" / "0-1"),
            memory=str(memory_twin(run_dir) / "0-1"), archive_keys=list(keys), **more
        )  # fmt: skip
        return answer(request, lambda step: None)

    yield run
    remove_with_twin(run_dir)


@pytest.fixture
def run_dir():
    """A directory whose path is short enough for sockets."""
    with TemporaryDirectory(prefix="servekit-test-") as directory:
        yield Path(directory)


def places_of_marker(*directories):
    """Return the files below *directories* that were written by this run and contain the marker."""
    return sorted(
        Path(place, name)
        for directory in directories
        for place, _, names in os.walk(directory)
        for name in names
        if contains_marker(Path(place, name))
    )


def contains_marker(path):
    try:
        is_new = path.is_file() and path.stat().st_ctime >= STARTED_AT
        return is_new and MARKER.encode() in path.read_bytes()
    except OSError:  # removed by whoever made it
        return False


def test_the_files_are_in_memory_and_are_removed_with_the_model(prepare, encrypted, tmp_path):
    model = prepare(encrypted, KEY).model
    directory = Path(model.directory)

    assert directory.is_relative_to("/dev/shm")
    assert Path(model.scratch).stat().st_mode & 0o777 == 0o700
    assert [path.name for path in places_of_marker(model.scratch)] == ["labels.txt", "service.py"]
    assert places_of_marker(tmp_path) == []
    assert not list(Path(model.scratch).rglob("*.mar"))
    assert model.digest == directory.name


def test_nothing_is_left_of_what_cannot_be_served(prepare, encrypted, tmp_path):
    policy = Policy(rules=("no-such-rule",))
    outcome = prepare(encrypted, KEY, policy=policy)

    assert outcome.is_refused
    assert list(Path("/dev/shm").glob(f"servekit-run-{os.getpid()}/*")) == []


def test_without_its_key_it_is_refused(prepare, encrypted):
    named = f"{encrypted}: is encrypted with the key {key_id(KEY)}, which is not known"

    assert prepare(encrypted).error == named
    assert prepare(encrypted, bytes(32)).error == named


def test_a_changed_file_is_refused(prepare, encrypted):
    content = bytearray(encrypted.read_bytes())
    content[-20] ^= 1
    encrypted.write_bytes(content)

    assert "was changed or cut short, or is damaged: chunk 1" in prepare(encrypted, KEY).error


def test_a_key_comes_from_a_plugin(prepare, encrypted, monkeypatch):
    asked = []

    class KeyStore:
        @hookimpl
        def find_archive_key(self, key_id):
            asked.append(key_id)
            return KEY

    def create(*extra, **more):
        return create_plugin_manager(*extra, KeyStore(), **more)

    monkeypatch.setattr("servekit.plugins.create_plugin_manager", create)

    assert prepare(encrypted).model.name == "secret"
    assert asked == [key_id(KEY)]


def test_another_file_that_is_no_archive_is_refused_as_ever(prepare, tmp_path):
    (tmp_path / "a.mar").write_text("text")

    assert "is not a" in prepare(tmp_path / "a.mar").error


def test_encrypt_refuses_what_is_no_key_or_no_archive(tmp_path, key, encrypted, capsys):
    (tmp_path / "short").write_text("abc")

    assert main(["encrypt", str(encrypted), "--key-file", str(key)]) == 1
    assert main(["encrypt", str(encrypted), "--key-file", str(tmp_path / "short")]) == 1
    assert main(["encrypt", str(encrypted), "--key-file", str(tmp_path / "nothing")]) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[1].endswith("short: is not a key of 64 hexadecimal digits")
    assert err[2].endswith("nothing: No such file or directory")


def test_the_hook_module_is_light():
    code = "import servekit_encryption.hooks, sys; print('cryptography' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "False"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start workers of another user")
def test_the_user_of_the_workers_can_read_it_and_others_cannot(prepare, encrypted, monkeypatch):
    # the tests may run below a directory that other users cannot enter
    monkeypatch.setattr(
        "servekit.supervisor.preparing.prepare.require_readable", lambda *paths: None
    )
    model = prepare(encrypted, KEY, worker_user="20000").model

    assert Path(model.scratch).stat().st_gid == 20000
    assert Path(model.scratch).stat().st_mode & 0o777 == 0o710


@pytest.mark.e2e
def test_no_plaintext_is_on_a_disk_while_an_encrypted_archive_serves(
    encrypted, key, tmp_path, run_dir
):
    options = {"archive_keys": [str(key)], "run_dir": str(run_dir)}
    options["cache_dir"] = str(tmp_path / "cache")
    with ServedModel(str(encrypted), **options) as served:
        assert served.wait_ready().predict([1]).prediction == len(MARKER) * 10 + 1000
        (own,) = run_dir.glob("servekit-run-*")
        twin = memory_twin(own)
        assert places_of_marker(twin)
        assert places_of_marker(tmp_path, run_dir, "/tmp", Path.home() / ".cache") == []

    assert not twin.exists()


@pytest.mark.e2e
def test_a_killed_server_leaves_nothing_in_memory(encrypted, key, tmp_path, run_dir):
    options = {"archive_keys": [str(key)], "run_dir": str(run_dir)}
    with ServedModel(str(encrypted), cache_dir=str(tmp_path / "cache"), **options) as served:
        served.wait_ready()
        (own,) = run_dir.glob("servekit-run-*")
        assert memory_twin(own).exists()
        served.process.kill()
        deadline = time() + 60
        while memory_twin(own).exists():
            assert time() < deadline, "the plaintext is still in memory"
            Event().wait(0.02)


@pytest.mark.e2e
def test_a_reload_of_the_same_archive_keeps_its_files(encrypted, key, tmp_path, run_dir):
    options = {"archive_keys": [str(key)], "run_dir": str(run_dir)}
    with ServedModel(str(encrypted), cache_dir=str(tmp_path / "cache"), **options) as served:
        served.wait_ready()
        (own,) = run_dir.glob("servekit-run-*")
        (before,) = memory_twin(own).glob("*")
        served.process.send_signal(SIGHUP)
        served.log.wait_for("model_unchanged")
        deadline = time() + 60
        while [*memory_twin(own).glob("*")] != [before]:
            assert time() < deadline, [*memory_twin(own).glob("*")]
            Event().wait(0.02)
        assert served.predict(1).status == 200
