# SPDX-License-Identifier: Apache-2.0
"""Parts of forms, as MMS reads them, and more."""

from base64 import b64encode

import msgspec
import pytest
from servekit_mms.archives import LegacySignature
from servekit_mms.inputs import InputReader, jpeg_bytes, jpeg_text

from servekit import InputError
from servekit.types import File

from .conftest import JPEG, signature


def reader(*names, **types):
    return InputReader(msgspec.convert(signature(*names, **types), LegacySignature))


def read(value, **types):
    found = reader("data", **types)
    return found.read(found.type(value))[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param([1, None], [1, None], id="JSON"),
        pytest.param("[{'a': 'b c'}]", [{"a": "b c"}], id="a Python literal"),
        pytest.param(" [True, None] ", [True, None], id="constants of Python"),
        pytest.param('{"a": 1}', {"a": 1}, id="an object"),
        pytest.param(b"[true, null]", [True, None], id="a file of JSON"),
        pytest.param(b"[True, 'a']", [True, "a"], id="a file of Python"),
    ],
)
def test_a_value_is_json_or_a_python_literal(value, expected):
    assert read(value) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(5, "got int", id="a number"),
        pytest.param("'a'", "got str", id="a string"),
        pytest.param(None, "got NoneType", id="null"),
        pytest.param("hello", "neither JSON nor", id="text"),
        pytest.param("[__import__('os')]", "neither JSON nor", id="code"),
        pytest.param("[" * 200 + "]" * 200, "100 brackets", id="nested too deep"),
        pytest.param("['" + "a" * (1 << 18) + "']", "limit 262144; send JSON", id="too long"),
        pytest.param("[\x00]", "neither JSON nor", id="a null character"),
        pytest.param("9" * 10_000, "neither JSON nor", id="an integer of too many digits"),
        pytest.param(b"\xff", "neither JSON nor", id="not text"),
    ],
)
def test_other_values_are_refused_with_their_name(value, reason):
    with pytest.raises(InputError, match=f"^data: .*{reason}"):
        read(value)


IMAGE = {"input_type": "image/jpeg"}


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(File("kitten.jpg", "image/jpeg", JPEG), id="a file"),
        pytest.param(File("kitten.jpg", "Image/JPEG; q=1", JPEG), id="its type in other words"),
        pytest.param(File("", "", b64encode(JPEG)), id="text of base64"),
        pytest.param(File("", "", b64encode(JPEG)[:8] + b"\r\n" + b64encode(JPEG)[8:]), id="lines"),
        pytest.param(File("", "", JPEG), id="b64 in JSON"),
    ],
)
def test_a_picture_is_a_file_or_base64(file):
    assert read(file, **IMAGE) == JPEG


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (File("a.png", "image/png", b"x"), "image/jpeg is expected but image/png is given"),
        (File("a", "", b"x"), "but no type is given; -F 'data=@picture.jpg;type=image/jpeg'"),
        (File("", "", b"no base64!"), "or base64"),
        (File("", "", b""), "or base64"),
    ],
)
def test_other_pictures_are_refused(file, reason):
    with pytest.raises(InputError, match=reason):
        read(file, **IMAGE)


def test_inputs_are_in_the_order_of_the_signature_whatever_their_names():
    found = reader("b-c", "class", "a")
    sent = msgspec.json.decode(b'{"a": [3], "class": [2], "b-c": [1]}', type=found.type)

    assert found.read(sent) == [[1], [2], [3]]


@pytest.mark.parametrize("output", [JPEG, b64encode(JPEG), bytearray(JPEG)])
def test_a_picture_is_answered_in_base64(output):
    assert jpeg_text(output) == b64encode(JPEG).decode()
    assert jpeg_bytes(jpeg_text(output)) == JPEG
