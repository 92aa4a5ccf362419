# SPDX-License-Identifier: Apache-2.0
"""Recordings as files, and what of a request is left out of them."""

import os
from time import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servekit_record.order import RecordingOrder, Shelf
from servekit_record.recording import (
    NotARecording,
    RecordingHead,
    line_of,
    message_of,
    read_calls,
)

from .test_comparison import call

HEAD = line_of(RecordingHead(servekit="0.1", time_s=1.0, share=1.0))


@given(st.binary(), st.dictionaries(st.text(), st.text()))
def test_a_message_keeps_every_body(body, headers):
    assert message_of(headers, body).body == body


@given(bodies=st.lists(st.binary(), max_size=5))
def test_what_is_written_is_read(tmp_path_factory, bodies):
    path = tmp_path_factory.mktemp("files") / "calls.rec"
    calls = [call(body) for body in bodies]
    path.write_bytes(HEAD + b"".join(map(line_of, calls)))

    assert list(read_calls(path)) == calls


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"hello\n", "line 1: ", id="no head"),
        pytest.param(HEAD + b'{"kind":"call"', "line 2: ", id="a line that was cut off"),
        pytest.param(HEAD.replace(b'"format":1', b'"format":9'), "the format 9", id="newer"),
    ],
)
def test_what_is_not_a_recording(tmp_path, content, told):
    path = tmp_path / "calls.rec"
    path.write_bytes(content)
    with pytest.raises(NotARecording, match=told):
        list(read_calls(path))


def test_the_calls_of_all_front_ends_are_read_from_where_one_was(tmp_path):
    shelf, order = Shelf(tmp_path), RecordingOrder(id="a")
    shelf.ask(order)
    (tmp_path / "a-1.calls").write_bytes(b"one\ntwo\nthr")
    (tmp_path / "a-2.calls").write_bytes(b"four\n")
    (tmp_path / "b-1.calls").write_bytes(b"of another recording\n")
    lines, places = shelf.read(order, {})

    assert lines == ["one", "two", "four"]
    with (tmp_path / "a-1.calls").open("ab") as file:
        file.write(b"ee\n")
    assert shelf.read(order, places)[0] == ["three"]


def test_a_line_that_is_longer_than_a_page_is_read(tmp_path):
    shelf, order = Shelf(tmp_path), RecordingOrder(id="a")
    shelf.ask(order)
    long = b"x" * (9 << 20)
    (tmp_path / "a-1.calls").write_bytes(b"one\n" + long + b"\ntwo\nthr")
    lines, places = shelf.read(order, {})

    assert lines == ["one", long.decode()]
    assert shelf.read(order, places)[0] == ["two"]


def test_a_recording_that_nobody_fetches_is_removed(tmp_path):
    shelf, order = Shelf(tmp_path), RecordingOrder(id="a", until_s=time() + 3600)
    shelf.ask(order)
    (tmp_path / "a-1.calls").write_bytes(b"one\n")
    long_ago = (time() - 61, time() - 61)
    os.utime(tmp_path / "order.json", long_ago)
    shelf.read(order, {})
    shelf.clear_forgotten()
    assert len(list(tmp_path.iterdir())) == 2

    os.utime(tmp_path / "order.json", long_ago)
    shelf.clear_forgotten()
    assert not list(tmp_path.iterdir())
