# SPDX-License-Identifier: Apache-2.0
"""Requests of protocols in the batches of a service, without sockets."""

import json
import math

import numpy as np
import pytest
from msgspec import structs

from servekit import InputError, Response
from servekit.ipc.batches import VALUES, EnvelopePart, Item, MethodCall, ProtocolCall
from servekit.ipc.control import Launch
from servekit.ipc.table import Interface
from servekit.service.endpoints import endpoint
from servekit.worker.codecs.value import values
from servekit.worker.envelopes import batch
from servekit.worker.envelopes.batch import EnvelopedBatch
from servekit.worker.envelopes.table import EnvelopeTable
from tests.worker.batches import echo, loaded, service_of
from tests.worker.worker_process import item

SAMPLES = "tests.worker.envelopes.samples"
LIMIT, LARGE = 5000, 1000
FORM = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--b--\r\n'


class Marks:
    """Clients that have gone, by places."""

    def __init__(self, *gone):
        self._gone = gone

    def has_any(self, batch):
        return bool(self._gone)

    def has(self, batch, place):
        return place in self._gone


def call(kind="Bare", **parameters):
    return ProtocolCall(f"{SAMPLES}:{kind}", parameters)


def sent(body, kind="Bare", *, content_type="", identity=None, calls=(), **parameters):
    """Return a request of a protocol; what is not bytes is sent as JSON."""
    made = item(body, content_type, calls=calls)
    made.protocol, made.identity = call(kind, **parameters), identity
    return made


def run(service, *items, longest=4, cancelled=None):
    """Return the result of one batch."""
    made = loaded(service, max_batch_size=longest)
    launch = Launch("", b'{"name":"m","version":"7"}', 0, 1, 1, 1, longest, LIMIT, 0, LARGE)
    table = EnvelopeTable(made.interface, made.codecs, launch)
    return EnvelopedBatch(table, made.methods, longest).answer(items, 1, cancelled)


def answered(service, *items, **keys):
    """Return error name or media type, and body, of every request."""
    return [(error or kind, body) for error, kind, body in run(service, *items, **keys).answers]


def noting(seen):
    def predict(self, batch):
        seen.append(list(batch))
        return batch

    return service_of(predict)


def test_inputs_of_all_requests_join_batches_of_at_most_the_longest():
    seen = []
    found = answered(noting(seen), sent([1, 2]), item(3), sent([4, 5, 6]), sent([]))

    assert seen == [[1, 2, 3, 4], [5, 6]]
    assert found == [
        ("application/json", b"[1,2]"),
        ("application/json", b'{"prediction":3}'),
        ("application/json", b"[4,5,6]"),
        ("application/json", b"[]"),
    ]


def test_one_input_that_is_refused_refuses_its_request_alone():
    def predict(self, batch):
        return [InputError(f"not {each}") if each < 0 else each for each in batch]

    (good, (error, told)) = answered(service_of(predict), sent([1]), sent([2, -3, -4]))

    assert good == ("application/json", b"[1]")
    assert (error, json.loads(told)["detail"]) == ("InputError", "not -3")


def test_inputs_that_are_encoded_are_read_and_checked_as_bodies():
    def predict(self, batch: list[int]) -> list[int]:
        return [each + 1 for each in batch]

    found = answered(service_of(predict), sent(b"1\n2", "Raw"), sent(b'"a"', "Raw"))

    assert found[0] == ("application/json", b"[2,3]")
    assert found[1][0] == "InputError"


@pytest.mark.parametrize(
    ("content_type", "body", "value"),
    [
        ("application/json", b"[1, 2]", b"[[1,2]]"),
        ("application/msgpack", b"\x93\x01\x02\x03", b"[[1,2,3]]"),
        ("text/plain", b"abc", b'["abc"]'),
        ("multipart/form-data; boundary=b", FORM, b'[{"a":"b"}]'),
    ],
)
def test_views_of_inputs_that_are_encoded_are_read_by_every_codec(content_type, body, value):
    request = sent(body, "Whole", content_type=content_type)
    request.body = memoryview(body)

    assert answered(service_of(echo), request) == [("application/json", value)]


@pytest.mark.parametrize("value", [["1"], [None]])
def test_inputs_that_are_decoded_are_checked(value):
    def predict(self, batch: list[int]) -> list[int]:
        return batch

    assert answered(service_of(predict), sent(value))[0][0] == "InputError"


def test_inputs_of_a_signature_are_stacked():
    signature = {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": []}],
    }
    shapes = []

    def predict(self, batch):
        shapes.append(batch["x"].shape)
        return {"y": batch["x"].sum(axis=1)}

    service = service_of(predict, signature)
    found = answered(service, sent([{"x": [1, 2]}, {"x": [3, 4]}]), item({"x": [5, 6]}))

    assert shapes == [(3, 2)]
    assert json.loads(found[0][1]) == [{"y": 3.0}, {"y": 7.0}]


def test_preprocess_and_postprocess_run_and_see_the_request():
    seen = []

    def preprocess(self, request):
        seen.append((request.input, request.content_type, request.body, request.identity.name))
        return request.input * 2

    service = service_of(echo, preprocess=preprocess, postprocess=lambda self, output: [output])
    found = answered(service, sent([1, 2], identity=("ada", {})))

    assert found == [("application/json", b"[[2],[4]]")]
    assert seen == [(1, "", b"[1,2]", "ada"), (2, "", b"[1,2]", "ada")]


def test_endpoints_are_called():
    service = service_of(echo, twice=endpoint("twice")(lambda self, batch: [2 * x for x in batch]))

    assert answered(service, sent([1], calls=[MethodCall(method="twice")]), sent([1])) == [
        ("application/json", b"[2]"),
        ("application/json", b"[1]"),
    ]


def test_the_envelope_knows_its_request():
    found = answered(service_of(echo), sent(b"abc", "Scripted", identity=("ada", {})))

    assert found == [("text/plain", b"ada 3")]


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        pytest.param({"decode": "refuse"}, "ClientError", id="body refused"),
        pytest.param({"decode": "fail"}, "BodyMalformed", id="body not readable"),
        pytest.param({"encode": "refuse"}, "ClientError", id="answer refused"),
        pytest.param({"encode": "fail"}, "ResultNotEncodable", id="answer not writable"),
        pytest.param({"encode": "nonsense"}, "ResultNotEncodable", id="answer is none"),
        pytest.param({"encode": "700"}, "ResultNotEncodable", id="status is none"),
    ],
)
def test_what_an_envelope_raises_concerns_its_request_alone(parameters, error):
    found = answered(service_of(echo), sent(b"", "Scripted", **parameters), sent([1]))

    assert [name for name, _ in found] == [error, "application/json"]


@pytest.mark.parametrize("kind", ["NotOne", "Nowhere"])
def test_an_envelope_that_cannot_be_had_fails_its_requests_alone(kind):
    found = answered(service_of(echo), sent([1], kind), sent([1]))

    assert [name for name, _ in found] == ["PredictFailed", "application/json"]


def test_status_and_headers_of_the_service_and_of_the_envelope():
    def predict(self, batch):
        return [Response("b", 201, {"x-service": "2"})] * len(batch)

    own, overridden = sent(b"", "Scripted"), sent(b"", "Scripted", encode="202")
    result = run(service_of(predict), own, overridden)

    assert [body for _, _, body in result.answers] == [b"b 0"] * 2
    assert result.responses == {
        0: (201, [("x-service", "2")]),
        1: (202, [("x-service", "2"), ("x-own", "1")]),
    }


@pytest.mark.parametrize(
    ("size", "is_large", "error"),
    [(LARGE - 1, False, ""), (LARGE, True, ""), (LIMIT + 1, False, "ResultNotEncodable")],
)
def test_answers_in_pieces(size, is_large, error):
    result = run(service_of(echo), sent(b"", "Scripted", encode="pieces", size=str(size)))
    ((name, media_type, body),) = result.answers
    whole = bytes(result.pieces[0]) if is_large else body

    assert name == error
    if not error:
        assert (media_type, len(whole), whole[:3]) == ("a/b", size, b"ab\0")
        assert bool(body) is not is_large


def test_requests_without_a_client_or_time_reach_no_service():
    seen, late = [], sent([3])
    late.deadline = -math.inf
    cancelled = Marks(1)
    found = answered(noting(seen), sent([1]), sent([2]), late, cancelled=cancelled)

    assert seen == [[1]]
    assert [name for name, _ in found] == ["application/json", "ClientGone", "DeadlineExceeded"]


def test_reading_and_writing_apart():
    """As for pipelines, whose first and last stages are in different workers."""
    read, write = (
        structs.replace(call("Scripted"), part=part)
        for part in (EnvelopePart.READ, EnvelopePart.WRITE)
    )
    sent_item = item(b"abc")
    sent_item.protocol, sent_item.identity = read, ("ada", {})
    ((error, media_type, body),) = run(service_of(echo), sent_item).answers
    written = item(values.encode([*values.decode(body, {})[:1], "out"]), accept="x/y")
    written.protocol = write
    answer = answered(service_of(echo), written, sent([1]))

    assert (error, media_type, values.decode(body, {})) == ("", VALUES, [[3, []], "ada"])
    assert answer == [("text/plain", b"out 3"), ("application/json", b"[1]")]


@pytest.mark.parametrize("kind", ["Raw", "Bare"])
def test_inputs_for_other_workers_are_decoded(kind):
    asked = item(b'{"a": 1}\n' if kind == "Raw" else b'[{"a": 1}]')
    asked.protocol = structs.replace(call(kind), part=EnvelopePart.READ)
    ((_, _, body),) = run(service_of(echo), asked).answers

    assert values.decode(body, {}) == [[None, []], {"a": 1}]


@pytest.mark.parametrize("part", EnvelopePart)
def test_an_envelope_knows_whether_other_workers_predict(part):
    asked = item(values.encode([[None, []], 1]) if part is EnvelopePart.WRITE else b"[1]")
    asked.protocol = structs.replace(call("Split"), part=part)
    ((_, _, body),) = run(service_of(echo), asked).answers
    found = values.decode(body, {}) if part is EnvelopePart.READ else json.loads(body)

    is_split = part is not EnvelopePart.BOTH
    assert (
        found
        == {
            EnvelopePart.BOTH: [is_split, is_split],
            EnvelopePart.READ: [[None, []], is_split],
            EnvelopePart.WRITE: [1, is_split],
        }[part]
    )


def test_an_envelope_sees_the_inputs_of_the_first_stage_and_the_outputs_of_the_last():
    signed = {
        side: [{"name": side, "dtype": "float32", "shape": []}] for side in ("inputs", "outputs")
    }
    hosted = {side: [{"name": "other", "dtype": "float32", "shape": []}] for side in signed}
    made = loaded(service_of(echo, signed))
    colocated = {"second": Interface(signature=hosted, produces=["a/b"], task="chat")}
    launch = Launch("", b'{"name":"m"}', 0, 1, 1, 1, 4, LIMIT, 0, LARGE)
    table = EnvelopeTable(made.interface, made.codecs, launch, colocated)

    for calls, inputs, outputs in (
        (("",), "inputs", "outputs"),
        (("first", "second"), "inputs", "other"),
        (("second", "first"), "other", "outputs"),
        (("second",), "other", "other"),
    ):
        asked = sent([1], calls=[MethodCall(stage) for stage in calls])
        seen = table.open(asked)._envelope.model.interface
        assert [seen.signature[side][0]["name"] for side in signed] == [inputs, outputs]
        assert (seen.task == "chat") == (calls[-1] == "second")


def test_batches_that_would_be_late_are_not_begun(monkeypatch):
    now, begun = [1e9], []  # later than the real clock
    monkeypatch.setattr(batch, "monotonic", lambda: now[0])

    def predict(self, inputs):
        begun.append(now[0] - 1e9)
        now[0] += 1
        return inputs

    many = sent(list(range(100)))
    many.deadline = 1e9 + 3.5
    found = answered(service_of(predict), many, longest=1)

    assert found[0][0] == "DeadlineExceeded"
    assert begun == [0, 1, 2]


def test_arrays_over_the_body_are_inputs():
    body = np.arange(3, dtype=np.float32)
    view = Item(memoryview(body).cast("B"), b"application/x", b"", "r1", math.inf)
    view.protocol = call("Arrays")
    found = answered(service_of(lambda self, batch: [each * 2 for each in batch]), view)

    assert found == [("application/json", b"[[0.0,2.0,4.0]]")]
