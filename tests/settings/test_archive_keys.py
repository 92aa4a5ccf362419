# SPDX-License-Identifier: Apache-2.0
"""Keys of encrypted archives come from files, variables and descriptors."""

import os

import pytest

from servekit.errors import StartupError
from servekit.settings import load_settings
from servekit.settings.archive_keys import _from_descriptor, key_id, read_archive_keys

KEY = bytes(range(32))
TEXT = KEY.hex().encode()


@pytest.fixture
def pipe():
    """A descriptor from which a key can be read once."""
    _from_descriptor.cache_clear()  # the number may have been another pipe's
    reading, writing = os.pipe()
    os.write(writing, TEXT + b"\n")
    os.close(writing)
    return reading


def test_each_source_is_read(tmp_path, pipe):
    (tmp_path / "key").write_bytes(TEXT.upper() + b"\n")
    sources = [str(tmp_path / "key"), "env:MODEL_KEY", f"fd:{pipe}"]

    assert read_archive_keys(sources, {"MODEL_KEY": TEXT.decode()}) == [KEY] * 3


def test_a_descriptor_is_read_once_and_closed(pipe):
    assert read_archive_keys([f"fd:{pipe}"]) == read_archive_keys([f"fd:{pipe}"]) == [KEY]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe)


def test_a_file_is_read_each_time(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(TEXT)
    before = read_archive_keys([str(path)])
    path.write_bytes(b"00" * 32)

    assert [*before, *read_archive_keys([str(path)])] == [KEY, bytes(32)]


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        pytest.param("/no/such/key", "/no/such/key: No such file", id="no file"),
        pytest.param("env:NOT_SET", "env:NOT_SET: is not a key of 64 hexadecimal", id="not set"),
        pytest.param("env:SHORT", "env:SHORT: is not a key of 64 hexadecimal", id="short"),
        pytest.param("fd:99999", "fd:99999: Bad file descriptor", id="no descriptor"),
    ],
)
def test_a_source_without_a_key_is_named_and_its_content_is_not(source, complaint):
    with pytest.raises(StartupError, match=f"^archive_keys: {complaint}") as raised:
        read_archive_keys([source], {"SHORT": "c0ffee"})

    assert "c0ffee" not in str(raised.value)


def test_paths_are_relative_to_the_file_of_the_settings(tmp_path):
    path = tmp_path / "servekit.toml"
    path.write_text("archive_keys = ['keys/own', 'fd:3', 'env:MODEL_KEY']\n")

    assert load_settings({}, path, {}).archive_keys == (
        str(tmp_path / "keys/own"), "fd:3", "env:MODEL_KEY",
    )  # fmt: skip


def test_the_id_of_a_key_does_not_tell_the_key():
    assert key_id(KEY) != key_id(bytes(32))
    assert len(key_id(KEY)) == 16
