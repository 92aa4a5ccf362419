# SPDX-License-Identifier: Apache-2.0
"""Responses are compared by value, in whatever form they came."""

import io
import json

import msgpack
import numpy as np
import pytest
from servekit_record.comparison import ResponseComparison
from servekit_record.recording import RecordedCall, RecordedStream, message_of

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}
LINES = {"content-type": "application/x-ndjson"}


def call(body, status=200, headers=JSON, *, is_stream=False, stream=None):
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
        stream=stream,
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


@pytest.mark.parametrize("found", [b"", b"\x93NUMPY", npy(np.float32([1, 2]))[:-1]])
def test_an_array_that_ends_too_early(found):
    told = difference(npy(np.float32([1, 2])), found, headers={"content-type": "application/x-npy"})

    assert told.startswith("the body cannot be read: ")


def test_other_bodies_are_compared_byte_by_byte():
    headers = {"content-type": "image/png"}

    assert not difference(b"abc", b"abc", headers=headers)
    assert difference(b"abc", b"abcd", headers=headers).startswith("4 bytes, not the 3 bytes")


@pytest.mark.parametrize("stream", [None, RecordedStream(incomplete="the client left")])
def test_of_a_stream_that_was_not_recorded_to_its_end_only_the_status(stream):
    recorded = call(b"", is_stream=True, stream=stream)

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


def events(*data):
    return "".join(f"data: {each}\n\n" for each in data).encode()


END = b"event: end\ndata: {}\n\n"
ERROR = b'event: error\ndata: {"title":"Prediction failed","status":500}\n\n'


@pytest.mark.parametrize(
    ("recorded", "found", "told"),
    [
        pytest.param(events("1.0"), events("1.0000000001"), "", id="a number within the tolerance"),
        pytest.param(
            events("a", "[DONE]"), events("a") + b": \n\n" + events("[DONE]"), "", id="a comment"
        ),
        pytest.param(
            events("a"), b"id: 7\nretry: 9\r\ndata: a\r\n\r\n", "", id="an id and line ends"
        ),
        pytest.param(
            events('{"a":1, "b":2}'), events('{"b":2,"a":1}'), "", id="the order of names"
        ),
        pytest.param(
            events('{"a":[1,2]}', '{"a":[3,4]}'),
            events('{"a":[1,2]}', '{"a":[3,5]}'),
            "event 2.data.a[1]: 5, expected 4 (tolerance 1e-06)",
            id="a number",
        ),
        pytest.param(events("a"), events("b"), 'event 1.data: "b", expected "a"', id="text"),
        pytest.param(
            b"data: a\ndata: b\n\n", events("a"), 'event 1.data: "a", expected "a\\nb"', id="a line"
        ),
        pytest.param(
            events("a", "b"), events("a"), 'event 2 is missing, expected {"data":"b"}', id="an end"
        ),
        pytest.param(
            events("a"), events("a", "b"), 'event 2: {"data":"b"}, expected the end', id="one more"
        ),
        pytest.param(events("a") + END, events("a"), "event 2 is missing", id="no end"),
        pytest.param(events("[DONE]"), events("[done]"), "event 1.data: ", id="another end"),
        pytest.param(events("a"), ERROR, "event 1 is an error: Prediction failed", id="an error"),
        pytest.param(
            events("a"), events('{"error":"no"}'), "event 1 is an error: no", id="an error of OIP"
        ),
        pytest.param(
            events('{"error":"no"}'), events('{"error":"yes"}'), "event 1.data.error: ", id="errors"
        ),
        pytest.param(events("a"), b"data: a", "", id="cut off after its data"),
        pytest.param(events("NaN", "1"), events("NaN", "1.0"), "", id="not a number"),
        pytest.param(events("[" * 9999), events("a"), "event 1.data: ", id="nested too deep"),
        pytest.param(events("1"), b"data: \xff\n\n", "event 1.data: ", id="not UTF-8"),
    ],
)
def test_events_are_compared_one_by_one(recorded, found, told):
    problem = difference(recorded, found, headers=EVENTS)

    assert problem.startswith(told)
    assert bool(problem) == bool(told)


@pytest.mark.parametrize(
    ("recorded", "found", "told"),
    [
        pytest.param(b'{"output":1}\n', b'{"output": 1.0}\n', "", id="a number"),
        pytest.param(
            b'{"output":1}\n', b'{"output":2}\n', "line 1.output: 2, expected 1", id="another"
        ),
        pytest.param(b"1\n2\n", b"1\n", "line 2 is missing, expected 2", id="an end"),
        pytest.param(
            b"1\n",
            b'{"error":{"detail":"too large"}}\n',
            "line 1 is an error: too large",
            id="an error",
        ),
    ],
)
def test_lines_are_compared_one_by_one(recorded, found, told):
    problem = difference(recorded, found, headers=LINES)

    assert problem.startswith(told)
    assert bool(problem) == bool(told)


def test_what_is_ignored_in_each_event_and_line():
    one, two = (json.dumps({"id": id_, "a": [{"b": b}]}) for id_, b in ((1, 2), (3, 4)))

    assert difference(events(one), events(two), headers=EVENTS).startswith("event 1.data.id: 3")
    assert not difference(events(one), events(two), headers=EVENTS, ignored=["id", "a.*.b"])
    assert not difference(one.encode(), two.encode(), headers=LINES, ignored=["id", "a.*.b"])


def chat(kind, **changes):
    call_ = {"id": "call_1", "function": {"name": "f", "arguments": ""}}
    piece = {"content": "a", "tool_calls": [call_]}
    answer = {
        "id": "1",
        "created": 1,
        "object": kind,
        "choices": [{"delta": piece, "message": json.loads(json.dumps(piece))}],
    }
    answer.update(changes)
    return answer


@pytest.mark.parametrize("kind", ["chat.completion", "chat.completion.chunk", "text_completion"])
def test_ids_and_times_of_openai_are_not_compared(kind):
    new = chat(kind, id="2", created=1_800_000_000, system_fingerprint="f")
    other = chat(kind, choices=[{"delta": {"content": "b"}}])
    for name in ("delta", "message") if kind != "text_completion" else ():
        new["choices"][0][name]["tool_calls"][0]["id"] = "call_2"

    assert not difference(encoded(chat(kind)), encoded(new))
    assert not difference(events(json.dumps(chat(kind))), events(json.dumps(new)), headers=EVENTS)
    assert "choices[0]" in difference(encoded(chat(kind)), encoded(other))


def test_ids_of_others_are_compared():
    assert difference(b'{"id":1,"object":"cup"}', b'{"id":2,"object":"cup"}')


@pytest.mark.parametrize(
    ("recorded", "found", "is_same"),
    [
        pytest.param(b"[NaN, 1]", b"[NaN, 1.0]", True, id="not a number"),
        pytest.param(b"9" * 400, b"9" * 399 + b"8", False, id="larger than any float"),
        pytest.param(b"[" * 2000, b"[" * 2001, False, id="nested too deep"),
    ],
)
def test_odd_json(recorded, found, is_same):
    assert bool(difference(recorded, found)) != is_same
