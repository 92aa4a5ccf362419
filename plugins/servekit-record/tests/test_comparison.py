# SPDX-License-Identifier: Apache-2.0
"""Responses are compared by value, in whatever form they came."""

import io
import json

import msgpack
import numpy as np
import pytest
from servekit_record.comparison import ResponseComparison
from servekit_record.recording import RecordedCall, message_of

JSON = {"content-type": "application/json"}


def call(body, status=200, headers=JSON, *, is_stream=False):
    return RecordedCall(
        time_s=0.0,
        request_id="r",
        method="POST",
        target="/m/predict",
        model="m",
        version="1",
        request=message_of({}, b""),
        status=status,
        response=message_of(headers, body),
        is_stream=is_stream,
        duration_s=0.001,
    )


def encoded(value):
    return json.dumps(value).encode()


def array(value):
    payload = [value.dtype.name, list(value.shape), value.tobytes()]
    return msgpack.packb(msgpack.ExtType(78, msgpack.packb(payload)))


def npy(value):
    file = io.BytesIO()
    np.save(file, value)
    return file.getvalue()


def difference(recorded, found, status=200, headers=JSON, ignored=(), tolerance=1e-6):
    comparison = ResponseComparison(tolerance, ignored)
    return comparison.difference(
        call(recorded, headers=headers), status, message_of(headers, found)
    )


@pytest.mark.parametrize(
    ("recorded", "found", "told"),
    [
        pytest.param(b'{"a":1}', b'{"a": 1.0000000001}', "", id="within the tolerance"),
        pytest.param(b'{"a":[1,2]}', b'{"a":[1,3]}', "body.a[1]: 3, expected 2", id="an element"),
        pytest.param(b'{"a":1}', b'{"b":1}', 'body: {"b":1}, expected', id="a name"),
        pytest.param(b'{"a":1}', b"{", "the body cannot be read: ", id="not JSON"),
    ],
)
def test_json(recorded, found, told):
    assert difference(recorded, found).startswith(told)
    assert bool(difference(recorded, found)) == bool(told)


def test_status_comes_first_and_says_why():
    found = encoded({"title": "Invalid input", "detail": "[0]: too large"})

    assert difference(b"1", found, status=422) == "status 422, expected 200: [0]: too large"


@pytest.mark.parametrize("form", [array, npy])
def test_arrays(form):
    headers = {"content-type": "application/x-npy" if form is npy else "application/msgpack"}
    one, two = np.float32([[1, 2]]), np.float32([[1, 2.5]])

    assert not difference(form(one), form(one + np.float32(1e-9)), headers=headers)
    assert "2.5, expected 2" in difference(form(one), form(two), headers=headers)


def test_other_bodies_are_compared_byte_by_byte():
    headers = {"content-type": "image/png"}

    assert not difference(b"abc", b"abc", headers=headers)
    assert difference(b"abc", b"abcd", headers=headers).startswith("4 bytes, not the 3 bytes")


def test_of_a_stream_only_the_status():
    recorded = call(b"", is_stream=True)

    assert not ResponseComparison(0.0).difference(recorded, 200, message_of(JSON, b"anything"))
    assert (
        ResponseComparison(0.0)
        .difference(recorded, 500, message_of(JSON, b""))
        .startswith("status 500")
    )


@pytest.mark.parametrize("path", ["id", "choices.*.created", "choices.0.created", ".choices"])
def test_what_is_ignored(path):
    recorded = {"id": 1, "choices": [{"created": 5, "text": "a"}]}
    found = json.loads(json.dumps(recorded))
    if path == "id":
        found["id"] = 2
    else:
        found["choices"][0]["created"] = 6

    assert difference(encoded(recorded), encoded(found))
    assert not difference(encoded(recorded), encoded(found), ignored=[path])
