# SPDX-License-Identifier: Apache-2.0
"""Archives on their way, and the directories that they arrive in."""

import fcntl
import hashlib

import pytest
from servekit_ray.shipping import ArchiveDirectory, digest_of, remove_stale
from servekit_ray.state import ShippedModel

from servekit.errors import StartupError


def test_directories_of_processes_that_have_ended_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = ArchiveDirectory()
    left = tmp_path / "servekit-ray-left"
    left.mkdir()
    (left / "lock").touch()
    remove_stale(tmp_path)

    assert [*tmp_path.iterdir()] == [mine.path]
    mine.remove()
    assert [*tmp_path.iterdir()] == []


def test_a_directory_that_another_process_is_making_stays(tmp_path, monkeypatch):
    def clean_up_before(file, operation):
        if operation == fcntl.LOCK_EX:
            remove_stale(tmp_path)
        flock(file, operation)

    flock = fcntl.flock
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", clean_up_before)
    mine = ArchiveDirectory()

    assert [path.name for path in mine.path.iterdir()] == ["lock"]
    mine.remove()


def test_an_archive_that_has_changed_on_its_way_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    archives, model = ArchiveDirectory(), ShippedModel("a.mar", hashlib.sha256(b"abc").hexdigest())
    with pytest.raises(StartupError, match=r"a\.mar: arrived with SHA-256"):
        archives.receive(model, [b"ab", b"d"])

    assert archives.find(model) is None
    assert archives.receive(model, [b"ab", b"c"]).read_bytes() == b"abc"
    archives.remove()


def test_a_digest_is_that_of_the_file(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")

    assert digest_of(tmp_path / "a").startswith("ba7816bf8f01cfea")
