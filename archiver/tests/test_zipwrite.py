# SPDX-License-Identifier: Apache-2.0
import io
import os
import random
import zipfile

import pytest
from servekit_archiver import ArchiveError, Limits
from servekit_archiver.zip.content import read_content
from servekit_archiver.zip.format import ALIGNMENT, STORED
from servekit_archiver.zip.listing import read_entries
from servekit_archiver.zip.source import Source
from servekit_archiver.zip.writer import ZipWriter

NOISE = random.Random(1).randbytes(5000)
GIB = 1 << 30


def write(path, files, *, stored=False):
    with path.open("wb") as out:
        writer = ZipWriter(out)
        for name, content in files.items():
            source = io.BytesIO(content)
            writer.add(name, source, len(content), stored=stored, seen=lambda _: None)
        writer.finish()
    return path


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("name_size", [1, 34, 33, 32, 29, 28, 27, 100])
def test_what_is_stored_begins_at_a_multiple_of_64(tmp_path, stored, name_size):
    files = {"n" * name_size: NOISE, "é" * name_size: NOISE[:99], "empty": b"", "z": b"1"}

    path = write(tmp_path / "a.zip", files, stored=stored)

    with Source(path) as source:
        for name, entry in read_entries(source, Limits()).items():
            assert entry.method == STORED
            assert entry.start % ALIGNMENT == 0 or not entry.size
            assert read_content(source, entry) == files[name]


def test_other_tools_read_what_is_written(tmp_path):
    files = {"a.txt": b"hello " * 999, "b/\u00e9.npy": NOISE, "c": b""}

    with zipfile.ZipFile(write(tmp_path / "a.zip", files)) as other:
        assert other.testzip() is None
        assert {name: other.read(name) for name in other.namelist()} == files


def test_what_would_look_like_a_bomb_is_stored(tmp_path):
    path = write(tmp_path / "a.zip", {"zeros": bytes(3 << 20)})

    with Source(path) as source:
        assert read_entries(source, Limits())["zeros"].method == STORED


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path):
    with (tmp_path / "a.zip").open("wb") as out, pytest.raises(ArchiveError, match="x: changed"):
        ZipWriter(out).add("x", io.BytesIO(b"12345"), 4, stored=False, seen=lambda _: None)


def test_files_and_offsets_beyond_4_gib_use_zip64(tmp_path):
    size, path = 4 * GIB + 5, tmp_path / "big.zip"
    with path.open("wb") as out:
        writer = ZipWriter(out)
        writer._write_content = lambda *_: out.seek(size, os.SEEK_CUR) and "a hole costs nothing"
        writer.add("big.npy", io.BytesIO(), size, stored=True, seen=lambda _: None)
        del writer._write_content
        writer.add("after", io.BytesIO(b"hello" * 9), 45, stored=False, seen=lambda _: None)
        writer.finish()

    with Source(path) as source:
        entries = read_entries(source, Limits())
        assert entries["big.npy"].size == size
        assert entries["big.npy"].start % ALIGNMENT == 0
        assert entries["after"].offset > 4 * GIB
    with zipfile.ZipFile(path) as other:
        assert [info.file_size for info in other.infolist()] == [size, 45]
        assert other.read("after") == b"hello" * 9
