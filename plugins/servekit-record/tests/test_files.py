# SPDX-License-Identifier: Apache-2.0
"""Recordings as files, and what of a request is left out of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servekit_record.order import RecordingOrder, Shelf
from servekit_record.recorder import is_secret
from servekit_record.recording import (
    NotARecording,
    RecordingHead,
    line_of,
    message_of,
    read_calls,
)
from servekit_record.sending import Address, Sender

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


@pytest.mark.parametrize(
    "field", ["authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token", "x-customer"]
)
def test_secret_fields(field):
    assert is_secret(field, ["x-customer"])
    assert not is_secret("content-type", ["x-customer"])


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


def test_a_recording_that_nobody_fetches_is_removed(tmp_path):
    shelf = Shelf(tmp_path)
    shelf.ask(RecordingOrder(id="a", until_s=1.0))
    (tmp_path / "a-1.calls").write_bytes(b"one\n")
    shelf.clear_forgotten()

    assert not list(tmp_path.iterdir())


def test_a_server_that_is_gone_is_said_in_words():
    answer = Sender(Address("http://127.0.0.1:9", "")).send(call(b""))

    assert (answer.status, answer.problem) == (0, "no answer: Connection refused")
