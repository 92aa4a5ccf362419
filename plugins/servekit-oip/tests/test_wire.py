# SPDX-License-Identifier: Apache-2.0
"""Parts of protobuf messages, without parsing the rest."""

import pytest

pytest.importorskip("google.protobuf", reason="pip install 'servekit-oip[grpc]'")

from servekit_oip.grpc.messages import message_class
from servekit_oip.grpc.wire import (
    delimited,
    error_piece,
    id_of,
    is_error,
    model_of,
    named,
    names_of,
    parts_of,
    response_piece,
)

Request = message_class("ModelInferRequest")


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, ("", "")),
        ({"model_name": "m"}, ("m", "")),
        ({"model_version": "2"}, ("", "2")),
        ({"model_name": "é" * 100, "model_version": "1", "id": "x"}, ("é" * 100, "1")),
    ],
)
def test_model_of(members, expected):
    assert model_of(Request(**members).SerializeToString()) == expected


@pytest.mark.parametrize(
    ("members", "size"),
    [
        pytest.param({"model_name": "m", "id": "x"}, 3, id="a model"),
        pytest.param({"model_name": "m", "model_version": "2", "id": "x"}, 6, id="a version"),
        pytest.param({"model_name": "m" * 200, "id": "x"}, None, id="a long name"),
        pytest.param({"model_name": "m"}, None, id="nothing else"),
        pytest.param({"id": "x"}, None, id="no model"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_the_names_at_the_beginning(members, size):
    message = Request(**members).SerializeToString()

    assert names_of(message) == message[:size]
    assert model_of(names_of(message)) == model_of(message)


def test_names_that_come_twice_are_left_to_the_slow_way():
    message = b"\x0a\x01m\x0a\x01n\x1a\x01x"

    assert names_of(message) is message


def test_a_model_that_is_named_late_is_found():
    assert model_of(Request(id="x").SerializeToString() + b"\x0a\x01m") == ("m", "")


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"\x0a", id="no length"),
        pytest.param(b"\x0a\x05m", id="too short"),
        pytest.param(b"\xff" * 12, id="a number without an end"),
        pytest.param(b"\x0b\x00", id="a kind that is not known"),
        pytest.param(b"\x0a\x01\xff", id="not UTF-8"),
        pytest.param(b"\x1a\x00" * 2000 + b"\x0a\x01m", id="very late"),
    ],
)
def test_what_is_no_message(message):
    with pytest.raises(ValueError, match=r".+"):
        model_of(message)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(Request(model_name="m", id="é" * 100), "é" * 100, id="an id"),
        pytest.param(Request(model_name="m"), "", id="no id"),
        pytest.param(Request(model_name="m", id="x", raw_input_contents=[b"\x1a"]), "x", id="more"),
        pytest.param(b"\x1a\x01\xff", "", id="not UTF-8"),
        pytest.param(b"\x1a\x05x", "", id="cut off"),
    ],
)
def test_the_id_of_a_request(message, expected):
    content = message if isinstance(message, bytes) else message.SerializeToString()

    assert id_of(content) == id_of(memoryview(content)) == expected


def test_an_error_gets_the_id_of_its_request():
    error = error_piece("no")
    read = message_class("ModelStreamInferResponse").FromString(named(error, "é"))

    assert is_error(error)
    assert not is_error(response_piece(error))
    assert (read.error_message, read.infer_response.id) == ("no", "é")


def test_the_parts_of_a_request():
    asked = Request(model_name="m", id="é", raw_input_contents=[b"abc", b"", bytes(300)])
    asked.inputs.add(name="a", shape=[1, 2])
    message = asked.SerializeToString()
    rest, id_, contents = parts_of(memoryview(message))

    assert [bytes(each) for each in contents] == [b"abc", b"", bytes(300)]
    assert contents[0].obj is message
    assert id_ == "é"
    asked.ClearField("raw_input_contents")
    asked.ClearField("id")
    assert Request.FromString(rest) == asked


@pytest.mark.parametrize(
    "message", [b"\x0a", b"\x0a\x05m", b"\xff" * 12, b"\x1a\x01\xff", b"\x3a\x80"]
)
def test_what_has_no_parts(message):
    with pytest.raises(ValueError, match=r".+"):
        parts_of(message)


def test_what_is_written_is_read():
    response = message_class("ModelInferResponse")(id="x")
    piece = message_class("ModelStreamInferResponse")
    raw = b"".join([response.SerializeToString(), delimited(6, 300), bytes(300)])

    assert piece.FromString(error_piece("é")).error_message == "é"
    assert piece.FromString(response_piece(raw)).infer_response.raw_output_contents == [bytes(300)]
