# SPDX-License-Identifier: Apache-2.0
"""Whatever a service returns, a real worker answers it, or a 500, and continues."""

import math

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servekit.errors import RequestError, error_class
from servekit.frontend.exchange.answer_checks import check_fields, media_types
from servekit.ipc.batches import VALUE, Open
from servekit.ipc.batches import VALUES as VALUES_TYPE
from tests.services.odd import VALUES
from tests.worker.worker_process import Worker, item, parts_of, run

PARTS = {
    "response": ("output", "status", "headers", "content_type"),
    "changed": ("output", "status", "headers", "content_type"),
    "input": ("detail", "errors"),
    "client": ("detail", "errors"),
    "changed refusal": ("detail", "errors", "args"),
    "done": ("output",),
    "output": ("output",),
    "file": ("name", "content_type", "content"),
    "audio": ("samples", "sample_rate"),
}
#: made in ``predict``, so that it raises there if it cannot be made, and with it fails the batch
MADE = ("response", "input", "client", "done")
ACCEPTED = (
    "",
    VALUE,
    VALUES_TYPE,
    "application/msgpack",
    "application/x-npy",
    "text/plain",
    "*/*;q=0.1, image/png",
)
SINGLES = [
    {"kind": kind, "parts": {"output": "int"} | {part: name}}
    if kind in ("response", "changed")
    else {"kind": kind, "parts": {part: name}}
    for kind, parts in PARTS.items()
    for part in parts
    for name in VALUES
]
SEVERAL = st.sampled_from([*PARTS]).flatmap(
    lambda kind: st.fixed_dictionaries(
        {
            "kind": st.just(kind),
            "parts": st.fixed_dictionaries(
                {}, optional={part: st.sampled_from([*VALUES]) for part in PARTS[kind]}
            ).map(lambda parts: {"output": "int"} | parts if kind == "output" else parts),
        }
    )
)
MANY = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def check(name, place, response):
    """See that a front-end can say the answer called *name*, and that it blames nobody else."""
    assert type(name) is str
    if "/" in name:
        assert media_types[name] == name
        check_fields(*response.get(place, (200, [])))
    else:
        kind = error_class(name)
        assert issubclass(kind, RequestError) or kind.status in (500, 507)
        assert place not in response


def asked(channel, order, calls=(), accept=""):
    """Send *order* between two good requests; check all and return the three names."""
    items = [item(1), item(order, accept=accept), item(2)]
    for each in items:
        each.calls = calls
    found = channel.predict(*items)
    for place, (name, _) in enumerate(found):
        check(name, place, channel.reply.responses)
    return [name for name, _ in found]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A worker that has to live through all of these tests."""
    worker = Worker(tmp_path_factory.mktemp("odd"), "odd:Odd", colocated={"next": "echo:Echo"})
    yield worker.boot()
    worker.end()


@pytest.fixture
def worker(shared):
    yield shared
    assert shared.process.poll() is None


def test_every_part_of_an_answer_may_be_of_any_type(worker):
    channel = worker.connect()
    for order in SINGLES:
        good, _, also_good = asked(channel, order)
        if order["kind"] not in MADE:
            assert (good, also_good) == ("application/json", "application/json"), order


@pytest.mark.parametrize("calls", [run("host"), run("host.other"), run("host", "next")])
def test_parts_of_any_types_together(worker, calls):
    channel = worker.connect()

    @MANY
    @given(SEVERAL, st.sampled_from(ACCEPTED))
    def any_order(order, accept):
        good, _, also_good = asked(channel, order, calls, accept)
        assert order["kind"] in MADE or good == also_good == "application/json"

    any_order()


WHOLE = [run("host.whole"), run("host.short"), run("host.short", "next")]


@pytest.mark.parametrize("calls", WHOLE)
def test_the_list_of_all_may_be_of_any_type(worker, calls):
    channel = worker.connect()
    for name in VALUES:
        found = channel.predict(item({"kind": "output", "parts": {"output": name}}, calls=calls))
        check(found[0][0], 0, channel.reply.responses)


@pytest.mark.parametrize("accept", ["", "application/json", "application/msgpack", "*/*"])
@pytest.mark.parametrize("method", ["files", "files_within", "sounds"])
def test_files_and_sounds_may_have_parts_of_any_type(worker, method, accept):
    channel = worker.connect()
    for order in SINGLES:
        if order["kind"] in ("file", "audio"):
            good, _, also_good = asked(channel, order, run(f"host.{method}"), accept)
            assert "/" in good, order
            assert "/" in also_good, order


@pytest.mark.parametrize("name", ["csv", "csv bytes", "numpy csv", "csv of its own"])
def test_the_content_type_of_a_file_is_a_text_of_any_type(worker, name):
    order = {"kind": "file", "parts": {"content_type": name}}
    found = worker.connect().predict(item(order, calls=run("host.files")))

    assert found == [("text/csv", b"1")]


@pytest.mark.parametrize("service", ["odd:OddFiles", "odd:OddStream", "odd:OddSlots"])
@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
def test_an_output_of_a_stream_may_be_of_any_type(start, service, accept):
    worker = start(service).boot()
    channel = worker.connect()
    orders = [order for order in SINGLES if order["kind"] != "client"]
    for number, order in enumerate(orders, 1):
        channel.send(Open(number, 0, item(order, accept=accept), math.inf))
        end = end_of(channel, number)
        check(end[0] or end[1] or "application/json", 0, {})

    assert worker.process.poll() is None


def end_of(channel, stream):
    while True:
        for message in channel.receive_some():
            for part in parts_of(message):
                if part.stream == stream and part.end is not None:
                    return part.end


@pytest.mark.parametrize(
    ("status", "expected"),
    [(name, int(VALUES[name])) for name in ("int", "int64", "uint8", "float", "float32")]
    + [("decimal", 200), ("fraction", 201), ("enum", 202), ("array", 202)],
)
def test_a_whole_number_of_any_type_is_a_status(worker, status, expected):
    channel = worker.connect()
    found = channel.predict(item({"kind": "response", "parts": {"status": status}}))

    assert found == [("application/json", b'{"prediction":null}')]
    assert channel.reply.responses == {0: (expected, [])}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("headers", [("X-A", "b")]),
        ("header of a number", [("X-A", "5")]),
        ("header of bytes", [("X-A", "b")]),
        ("none", []),
    ],
)
def test_headers_of_harmless_types_are_texts(worker, headers, expected):
    channel = worker.connect()
    channel.predict(item({"kind": "response", "parts": {"headers": headers}}))

    assert channel.reply.responses == {0: (200, expected)}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"status": "half"}, "status 200.5: not a whole number"),
        ({"status": "none"}, "status None: not a whole number"),
        ({"status": "digits"}, "status '201': not a whole number"),
        ({"status": "hostile"}, "status of type Hostile: not a whole number"),
        ({"status": "huge"}, "status 1000000000000000000000000000000: not 200 to 599"),
        ({"status": "endless"}, "status of type int: not 200 to 599"),
        ({"headers": "pairs"}, "headers [('X-A', 'b')]: not a mapping"),
        ({"headers": "header of None"}, "header 'X-A': None is not a string"),
        ({"headers": "header of lines"}, "header 'X-A': malformed"),
        ({"content_type": "csv line"}, r"'text/csv\n' is not a valid content type"),
        ({"content_type": "none", "output": "response"}, "a Response within a Response"),
        ({"content_type": "int"}, "'201' is not a valid content type"),
    ],
)
def test_the_log_says_which_part_is_wrong_and_a_neighbour_is_answered(worker, parts, said):
    channel = worker.connect()
    for kind in ("changed", "response"):
        names = asked(channel, {"kind": kind, "parts": parts})
        assert error_class(names[1]).status == 500
        assert said in worker.log.read_text()
        assert kind == "response" or (names[0], names[2]) == ("application/json",) * 2


def test_a_refusal_says_what_can_be_said_of_it(worker):
    order = {"kind": "input", "parts": {"detail": "none", "errors": "odd errors"}}
    ((name, body),) = worker.connect().predict(item(order))

    assert name == "InputError"
    found = msgspec.json.decode(body)
    assert found["detail"] == ""
    assert [each["message"] for each in found["errors"]] == ["", "5", "", ""]


def test_a_refusal_that_a_stream_yields_ends_it(start):
    channel = start("odd:OddStream").boot().connect()
    channel.send(Open(1, 0, item({"kind": "input", "parts": {"detail": "text"}}), math.inf))

    assert end_of(channel, 1)[0] == "InputError"


def test_an_answer_that_no_frame_can_hold_is_an_error(start):
    worker = start("odd:Unforeseen").boot()
    channel = worker.connect()

    assert [name for name, _ in channel.predict(item("odd"))] == ["ResultNotEncodable"]
    assert [name for name, _ in channel.predict(item(1))] == ["application/json"]
    assert "the answers of a batch cannot be sent" in worker.log.read_text()


def test_an_answer_that_no_frame_can_hold_is_an_error_beside_streams(start):
    worker = start("odd:UnforeseenStream").boot()
    channel = worker.connect()
    for number, (value, error) in enumerate([("odd", "ResultNotEncodable"), (1, "")], 1):
        channel.send(Open(number, 0, item(value, calls=run(".whole")), math.inf))
        assert end_of(channel, number)[0] == error
    assert "the answers of a batch cannot be sent" in worker.log.read_text()
