# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
from pathlib import Path

import pytest
from servekit_archiver import ArchiveError, ManifestError, open_archive
from servekit_archiver.names import MANIFEST

from archiver.tests.forging import Item


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_the_digest_is_that_of_the_manifests_bytes(archive):
    with open_archive(archive) as opened:
        assert opened.digest == hashlib.sha256(opened.manifest_bytes).hexdigest()
        assert json.loads(opened.manifest_bytes)["name"] == opened.manifest.name == "digits"


def test_extract_gives_back_the_directory(archive, model, tmp_path):
    with open_archive(archive) as opened:
        opened.extract(tmp_path / "new" / "copy")

    assert contents(tmp_path / "new" / "copy") == contents(model)


def test_extracted_files_may_be_edited_by_their_owner(archive, tmp_path):
    umask = os.umask(0o027)
    try:
        with open_archive(archive) as opened:
            opened.extract(tmp_path / "copy")
    finally:
        os.umask(umask)

    assert (tmp_path / "copy/service.py").stat().st_mode & 0o777 == 0o640


def test_a_directory_with_files_is_written_into_only_by_force(archive, tree, tmp_path):
    target = tree(tmp_path / "copy", {"service.py": "old", "mine": "kept"})
    with open_archive(archive) as opened:
        with pytest.raises(ArchiveError, match="is not an empty directory"):
            opened.extract(target)
        assert contents(target) == {"service.py": b"old", "mine": b"kept"}
        opened.extract(target, force=True)

    assert (target / "mine").read_text() == "kept"
    assert (target / "service.py").read_text().startswith("class Digits")


def link_outside(target, outside):
    (target / "data").symlink_to(outside)


def file_for_folder(target, outside):
    (target / "data").touch()


def folder_for_file(target, outside):
    (target / "service.py").mkdir()


@pytest.mark.parametrize("prepare", [link_outside, file_for_folder, folder_for_file])
def test_force_never_writes_through_what_is_in_the_way(archive, tmp_path, prepare):
    outside, target = tmp_path / "outside", tmp_path / "copy"
    outside.mkdir()
    target.mkdir()
    prepare(target, outside)
    before = sorted(target.iterdir())

    with (
        open_archive(archive) as opened,
        pytest.raises(ArchiveError, match=r"is (not )?a directory"),
    ):
        opened.extract(target, force=True)

    assert list(outside.iterdir()) == []
    assert sorted(target.iterdir()) == before


def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(archive, tmp_path):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/service.py").symlink_to(tmp_path / "precious")

    with open_archive(archive) as opened:
        opened.extract(tmp_path / "copy", force=True)

    assert (tmp_path / "precious").read_text() == "kept"


def test_an_archive_that_is_not_sound_leaves_no_file(forge, tmp_path):
    path = forge(Item("a", b"good"), Item("b", b"bad", sha256="0" * 64))

    with open_archive(path) as opened, pytest.raises(ArchiveError, match="entry 'b': its SHA-256"):
        opened.extract(tmp_path / "copy")

    assert not (tmp_path / "copy").exists()


def test_a_changed_byte_in_a_file_is_named(archive):
    with open_archive(archive) as opened:
        start = opened.entries["weights.npy"].start
    content = bytearray(archive.read_bytes())
    content[start + 100] ^= 1
    archive.write_bytes(content)

    with open_archive(archive) as opened, pytest.raises(ArchiveError, match=r"'weights\.npy'"):
        opened.verify()


def test_the_manifest_and_the_entries_are_the_same_set(forge):
    one, two = Item("a", b"x"), Item("b", b"y")
    listed = {"a": {"size": 1, "sha256": "0" * 64}}

    with pytest.raises(ArchiveError, match="entry 'b': is not listed in the manifest"):
        open_archive(forge(one, two, manifest={"files": listed}))
    with pytest.raises(ArchiveError, match="entry 'a': is listed in the manifest but missing"):
        open_archive(forge(manifest={"files": listed}))
    with pytest.raises(ArchiveError, match="entry 'a': is 1 byte, not 2 as listed"):
        open_archive(forge(one, manifest={"files": {"a": {"size": 2, "sha256": "0" * 64}}}))


def test_a_manifest_that_is_refused_names_the_archive(forge):
    path = forge(Item("a", b"x"), manifest={"name": "a b", "servce": 1})

    with pytest.raises(ManifestError) as caught:
        open_archive(path)

    assert caught.value.source == f"{path}: {MANIFEST}"
    assert len(caught.value.problems) == 2


def test_a_manifest_beyond_its_limit_is_not_read(forge):
    with pytest.raises(ArchiveError, match=r"MANIFEST.json': is .* bytes, limit 4194304"):
        open_archive(forge(manifest={"description": "x" * (5 << 20)}))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("no.mar", "No such file or directory"),
        (".", "is a directory; servekit build makes an archive of it"),
        ("fifo", "is not a regular file"),
        ("/dev/null", "is not a regular file"),
        ("secret" * 99, "File name too long"),
    ],
)
def test_what_is_no_file_is_refused_without_waiting(tmp_path, monkeypatch, path, why):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")

    with pytest.raises(ArchiveError, match=why):
        open_archive(path)


def test_a_refused_archive_is_not_kept_open(forge):
    before = len(list(Path("/proc/self/fd").iterdir()))

    for _ in range(20):
        with pytest.raises(ArchiveError):
            open_archive(forge.raw(b"no zip"))

    assert len(list(Path("/proc/self/fd").iterdir())) == before
