# SPDX-License-Identifier: Apache-2.0
"""A server with a policy serves what it trusts, and refuses the rest by name."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from servekit_archiver import build_archive
from servekit_archiver.cli import main as archive_command

from servekit.system.unix_http import UnixConnection
from servekit.testing import ServedModel

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
pytest.importorskip("servekit_signing")
pytest.importorskip("servekit_encryption")
pytest.importorskip("servekit_policy")

SERVICE = """
from servekit import Service

class Same(Service):
    def predict(self, batch):
        return batch
"""


class Planted:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.fixture
def keys(tmp_path):
    """Private keys by name; ``trusted.pem`` is the public key of the first."""
    for name in ("own", "other"):
        path = tmp_path / f"{name}.key"
        make = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path]
        subprocess.run(make, check=True)
    public = ["openssl", "ec", "-in", tmp_path / "own.key", "-pubout"]
    subprocess.run([*public, "-out", tmp_path / "trusted.pem"], check=True, capture_output=True)
    (tmp_path / "archive.key").write_text("ab" * 32)
    (tmp_path / "lost.key").write_text("cd" * 32)
    return tmp_path


@pytest.fixture
def make(tmp_path, keys):
    """Build an archive with more files; sign and encrypt it with keys by name."""

    def run(name, *, signed_by="", encrypted_with="", **files):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "model.toml").write_text(f'name = "{name}"\nservice = "service:Same"\n')
        (directory / "service.py").write_text(SERVICE)
        for file, content in files.items():
            (directory / file).write_bytes(content)
        path = build_archive(directory, tmp_path / f"{name}.mar").path
        if signed_by:
            assert archive_command(["sign", str(path), "--key", str(keys / signed_by)]) == 0
        if encrypted_with:
            key = str(keys / encrypted_with)
            assert archive_command(["encrypt", str(path), "--key-file", key]) == 0
            path = path.with_name(f"{name}.mar.enc")
        return str(path)

    return run


@pytest.fixture
def archives(make):
    """One of each kind, by name."""
    return {
        "good": make("good", signed_by="own.key"),
        "unsigned": make("unsigned"),
        "stranger": make("stranger", signed_by="other.key"),
        "planted": make("planted", signed_by="own.key", weights=pickle.dumps(Planted())),
        "sealed": make("sealed", signed_by="own.key", encrypted_with="archive.key"),
        "bare": make("bare", encrypted_with="archive.key"),
        "locked": make("locked", signed_by="own.key", encrypted_with="lost.key"),
    }


REASONS = {
    "unsigned": "refused: is not signed (rule signed)",
    "stranger": "which is not trusted (rule signed)",
    "planted": "refused: weights: is a pickle that imports posix.system (rule no-pickle)",
    "bare": "refused: is not signed (rule signed)",
    "locked": "locked.mar.enc: is encrypted with the key",
}


def models_of(run_dir):
    command = [sys.executable, "-m", "servekit.cli", "models", "--run-dir", str(run_dir), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=False).stdout)


@pytest.fixture
def run_dir():
    """A directory whose path is short enough for sockets."""
    with TemporaryDirectory(prefix="servekit-test-") as directory:
        yield Path(directory)


def test_what_is_not_trusted_is_refused_once_and_the_rest_is_served(archives, keys, run_dir):
    first, *others = archives.values()
    options = {
        "models": others, "policy": "signed,no-pickle", "trusted_keys": [str(keys / "trusted.pem")],
        "archive_keys": [str(keys / "archive.key")], "run_dir": str(run_dir),
    }  # fmt: skip
    with ServedModel(first, **options) as served:
        serving = served.log.wait_for("serving")
        failed = {entry["subject"]: entry["reason"] for entry in served.log.find("model_failed")}
        statuses = {name: served.post(f"/{name}/predict", b"1").status for name in archives}
        shown = json.dumps(models_of(run_dir))

        assert serving["models"] == ["good/1.0", "sealed/1.0"]
        assert {name for name, status in statuses.items() if status == 200} == {"good", "sealed"}
        assert {statuses[name] for name in REASONS} == {503}
        assert len(served.log.find("model_failed")) == len(REASONS)
        for name, reason in REASONS.items():
            assert reason in failed[name]
            assert reason in shown


def test_a_reload_to_an_archive_that_is_not_trusted_changes_nothing(make, keys, tmp_path):
    path = make("good", signed_by="own.key")
    options = {"policy": "signed", "trusted_keys": [str(keys / "trusted.pem")]}
    with ServedModel(path, **options) as served:
        served.wait_ready()
        (tmp_path / "good/service.py").write_text(SERVICE.replace("return batch", "return []"))
        build_archive(tmp_path / "good", path, force=True)
        served.process.send_signal(1)
        entry = served.log.wait_for("reload_failed")

        assert "is not signed (rule signed)" in json.dumps(entry)
        assert served.predict(1).prediction == 1


def test_an_operator_who_asks_for_what_the_policy_refuses_gets_403(make, keys, run_dir):
    path = make("good", signed_by="own.key")
    other = make("planted", signed_by="own.key", weights=pickle.dumps(Planted()))
    options = {
        "policy": "signed,no-pickle", "trusted_keys": [str(keys / "trusted.pem")],
        "run_dir": str(run_dir),
    }  # fmt: skip
    with ServedModel(path, **options) as served:
        served.wait_ready()
        (socket,) = run_dir.glob("servekit-run-*/manage.sock")
        asked = {"/models": make("unsigned"), "/models/good/swap": other}
        found = {place: ask(socket, place, source) for place, source in asked.items()}

        assert {status for status, _ in found.values()} == {403}
        assert "is not signed (rule signed)" in found["/models"][1]
        assert "weights: is a pickle that imports posix" in found["/models/good/swap"][1]
        assert served.predict(1).prediction == 1


def ask(socket, place, source):
    """Ask the management for an operation; return status and body once it has ended."""
    connection = UnixConnection(socket, 50)
    body = json.dumps({"source": source})
    connection.request("POST", f"{place}?wait=50", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    try:
        return answer.status, answer.read().decode()
    finally:
        connection.close()
