# SPDX-License-Identifier: Apache-2.0
"""Log files are bounded, and survive what happens to a directory."""

import os
import shutil

import pytest

from servekit.log_files.rotation import RotatingFile

LINE = b"x" * 99 + b"\n"


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "logs"
    path.mkdir()
    return path


@pytest.fixture
def file(directory):
    file = RotatingFile(directory, "server.jsonl", 1000, 2)
    yield file
    file.close()


def sizes(directory):
    return {path.name: path.stat().st_size for path in directory.iterdir()}


def test_a_file_is_complete_before_it_is_too_large(file, directory):
    file.write(LINE * 25)

    assert sizes(directory) == {
        "server.jsonl": 500, "server.jsonl.1": 1000, "server.jsonl.2": 1000,
    }  # fmt: skip


def test_the_oldest_files_are_removed_also_those_of_a_larger_number(file, directory):
    for number in (2, 3, 4):
        (directory / f"server.jsonl.{number}").write_bytes(b"old\n")
    file.write(LINE * 11)

    assert sizes(directory) == {
        "server.jsonl": 100, "server.jsonl.1": 1000, "server.jsonl.2": 4,
    }  # fmt: skip


def test_a_line_that_is_too_long_has_a_file_of_its_own(file, directory):
    long = b"y" * 5000 + b"\n"
    file.write(LINE + long + LINE)

    assert (directory / "server.jsonl.1").read_bytes() == long
    assert (directory / "server.jsonl").read_bytes() == LINE


def test_only_owner_and_group_can_read(file, directory):
    file.write(LINE)

    assert (directory / "server.jsonl").stat().st_mode & 0o027 == 0


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_directory_that_vanishes_is_made_again(file, directory, is_made_again):
    file.write(LINE)
    shutil.rmtree(directory)
    if is_made_again:
        directory.mkdir()
    file.write(LINE)

    assert sizes(directory) == {"server.jsonl": 100}


def test_a_file_that_somebody_moves_is_begun_anew(file, directory):
    file.write(LINE)
    (directory / "server.jsonl").rename(directory / "kept")
    file.write(LINE)

    assert sizes(directory) == {"server.jsonl": 100, "kept": 100}


def test_a_file_of_an_earlier_server_is_continued_on_a_line_of_its_own(directory):
    (directory / "server.jsonl").write_bytes(b"torn")
    file = RotatingFile(directory, "server.jsonl", 1000, 2)
    file.write(LINE)
    file.close()

    assert (directory / "server.jsonl").read_bytes() == b"torn\n" + LINE


def test_a_link_in_place_of_the_file_is_refused(file, directory, tmp_path):
    (directory / "server.jsonl").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="symbolic links"):
        file.write(LINE)
    assert not (tmp_path / "elsewhere").exists()


def test_after_a_torn_write_the_next_line_begins_a_line(file, directory, monkeypatch):
    write, rooms = os.write, iter([50, 0])

    def full(descriptor, data):
        room = next(rooms, None)
        if room == 0:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:room])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        file.write(LINE)
    file.write(LINE)

    assert (directory / "server.jsonl").read_bytes() == LINE[:50] + b"\n" + LINE
