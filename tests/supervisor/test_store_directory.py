# SPDX-License-Identifier: Apache-2.0
"""A directory of archives, look by look: what is served, what waits, and what is said of it."""

import os

import pytest
from servekit_archiver import build_archive

from servekit.supervisor.store.directory import StoreDirectory, age
from servekit.supervisor.store.messages import StoredModel, newest


@pytest.fixture
def build(tmp_path):
    """Return what builds an archive outside the store, and its bytes."""

    def make(name="one", version="1.0"):
        source = tmp_path / "source"
        source.mkdir(exist_ok=True)
        (source / "model.toml").write_text(
            f'name = "{name}"\nversion = "{version}"\nservice = "service:One"\n'
        )
        (source / "service.py").write_text("class One: pass\n")
        archive = build_archive(source, tmp_path / "built.mar", force=True)
        return archive.path.read_bytes()

    return make


@pytest.fixture
def store(tmp_path):
    directory = tmp_path / "store"
    directory.mkdir()
    return directory


def looks(directory, count=2):
    """Look several times; return what was said."""
    return [remark.text for _ in range(count) for remark in directory.look()]


def served(directory):
    return [f"{model.name}/{model.version}" for model in newest(directory.models)]


def test_an_archive_is_known_once_it_is_calm(store, build):
    (store / "one.mar").write_bytes(build())
    directory = StoreDirectory(store)

    assert (looks(directory, 1), served(directory)) == ([], [])
    assert (looks(directory, 1), served(directory)) == ([], ["one/1.0"])


def test_a_half_written_archive_waits_and_is_said_once(store, build):
    content, file, directory = build(), store / "one.mar", StoreDirectory(store)
    said = []
    for size in (100, 200, 300, 300, 400):
        file.write_bytes(content[:size])
        said += looks(directory, 1)
    assert (said, served(directory)) == (
        ["is still being written; waits until it is complete"],
        [],
    )

    file.write_bytes(content)
    assert (looks(directory), served(directory)) == ([], ["one/1.0"])


def test_a_broken_archive_is_said_once_and_what_was_there_counts(store, build):
    file, directory = store / "one.mar", StoreDirectory(store)
    file.write_bytes(build())
    looks(directory)
    content = bytearray(build(version="2.0"))
    content[: len(content) // 2] = bytes(len(content) // 2)
    file.write_bytes(content)
    said = looks(directory, 4)

    assert len(said) == 1
    assert said[0].startswith("changes nothing: ")
    assert served(directory) == ["one/1.0"]


def test_the_newest_version_of_a_name_is_served(store, build):
    (store / "b.mar").write_bytes(build(version="10.0"))
    (store / "a.mar").write_bytes(build(version="9.1"))
    directory = StoreDirectory(store)

    assert looks(directory, 4) == ["is outdated: b.mar is newer"]
    assert served(directory) == ["one/10.0"]
    (store / "b.mar").unlink()
    assert (looks(directory), served(directory)) == ([], ["one/9.1"])


def test_model_directories_count_and_other_files_do_not(store, build, tmp_path):
    build("two")
    (tmp_path / "source").rename(store / "two")
    (store / ".hidden.mar").write_bytes(b"")
    (store / "notes.txt").write_text("")
    (store / "empty").mkdir()
    directory = StoreDirectory(store)

    assert (looks(directory, 3), served(directory)) == ([], ["two/1.0"])


def test_what_is_served_stays_while_the_directory_cannot_be_read(store, build, tmp_path):
    (store / "one.mar").write_bytes(build())
    directory = StoreDirectory(store)
    looks(directory)
    store.rename(tmp_path / "elsewhere")
    said = looks(directory, 3)

    assert len(said) == 1
    assert said[0].endswith("what is served stays")
    assert served(directory) == ["one/1.0"]


def test_what_was_refused_gives_way_to_an_older_version_if_there_is_one(store, build):
    for version in ("1.0", "2.0"):
        (store / f"one-{version}.mar").write_bytes(build(version=version))
    directory = StoreDirectory(store)
    looks(directory)
    old, new = directory.models

    assert newest([old, new]) == [new]
    assert newest([old, new], {new}) == [old]
    assert newest([old, new], {old, new}) == [new]


@pytest.mark.parametrize(
    ("older", "newer"),
    [("1.9", "1.10"), ("2.0rc1", "2.0"), ("2.0", "2.0.1"), ("a", "1"), ("2.0-alpha", "2.0-beta")],
)
def test_versions_are_compared_as_people_count(older, newer):
    models = [StoredModel("one", version, "/one.mar", "", 0) for version in (newer, older)]

    assert [model.version for model in sorted(models, key=age)] == [older, newer]


def test_a_name_that_is_not_text_is_left_out_with_a_remark(store, build):
    (store / "one.mar").write_bytes(build())
    (store / os.fsdecode(b"tw\xffo.mar")).write_bytes(build("two"))
    directory = StoreDirectory(store)
    remarks = [remark for _ in range(3) for remark in directory.look()]

    assert [remark.text for remark in remarks] == ["changes nothing: its name is not UTF-8"]
    assert remarks[0].path.endswith("tw\\xffo.mar")
    assert served(directory) == ["one/1.0"]
