# SPDX-License-Identifier: Apache-2.0
"""Where the time of real requests went, as a plugin is told it."""

import json
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.waiting import wait_until

MODELS = Path(__file__).parent / "models"
ECHO = Path(__file__).parents[2] / "examples" / "echo"
CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = CONTEXT[:-2] + "00"
JSON = {"Content-Type": "application/json"}
pytestmark = [pytest.mark.e2e, pytest.mark.slow]
numbers = count()


class Traced:
    """A server whose plugin writes all traces to a file."""

    def __init__(self, server, file):
        self.server, self.file = server, file

    def events(self):
        lines = self.file.read_bytes().splitlines() if self.file.exists() else []
        events = [json.loads(line) for line in lines if line.endswith(b"}")]
        return [each for each in events if each["event"] == "request_traced"]

    def ask(self, path, value, **headers):
        """Return the event of one request, and its status."""
        name = f"r-{next(numbers)}"
        status, _, _ = self.server.post(
            path, json.dumps(value).encode(), X_Request_Id=name, **headers
        )
        return self.event(name), status

    def event(self, name):
        def found():  # a call of another model has the same id
            every = self.events()
            return [
                each for each in every if each["request_id"] == name and each["model"] != "called"
            ]

        wait_until(found, f"request {name} is traced", 20)
        return found()[0]


def start(serve, directory, *models, share="", **flags):
    """Return a server that traces *share* of the requests; "": only slow ones."""
    file = directory / "journal"
    named = {"JOURNAL_FILE": str(file), "JOURNAL_ALSO": "traces", "JOURNAL_TRACES": share}
    before = {name: os.environ.get(name) for name in named}
    os.environ.update(named)
    try:
        options = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
        return Traced(serve("--models", *models, *options), file)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(scope="module")
def sampled(serve, tmp_path_factory):
    names = ("stages", "caller", "counting", "calling", "called")
    models = (*(MODELS / name for name in names), ECHO)
    return start(serve, tmp_path_factory.mktemp("sampled"), *models, share="1")


@pytest.fixture(scope="module")
def slow(serve, tmp_path_factory):
    return start(serve, tmp_path_factory.mktemp("slow"), MODELS / "stages", ECHO)


def names(event):
    return [span["name"] for span in event["spans"]]


def check(event):
    """Check what holds for every event."""
    ends = [span["start_s"] + span["duration_s"] for span in event["spans"]]
    assert all(span["start_s"] >= 0 and span["duration_s"] >= 0 for span in event["spans"])
    assert max(ends) <= event["duration_s"] + 1e-6
    assert all(-1 <= span["batch"] < len(event["batches"]) for span in event["spans"])
    assert all(event["request_id"] in batch["request_ids"] for batch in event["batches"])
    return event


def test_a_sampled_request_has_all_of_its_parts(sampled):
    event, status = sampled.ask("/echo/predict", [1, 2])
    check(event)

    assert (status, event["status"], event["reason"]) == (200, 200, "sampled")
    assert (event["model"], event["method"], event["path"]) == ("echo", "POST", "/echo/predict")
    parts = ["queue", "ipc", "decode", "predict", "encode", "ipc", "send"]
    assert [name for name in names(event) if name != "receive"] == parts
    (batch,) = event["batches"]
    assert (batch["size"], batch["replica"], batch["stage"]) == (1, 0, "")
    assert batch["pid"] in sampled.server.workers()
    assert event["traceparent"].endswith("-01")
    assert event["parent_span"] == ""
    assert batch["traceparents"] == [event["traceparent"]]  # the worker has got it


@pytest.mark.parametrize(("given", "reason"), [(CONTEXT, "sampled"), ("garbage", "sampled")])
def test_a_traceparent_decides(sampled, given, reason):
    event, _ = sampled.ask("/echo/predict", 1, traceparent=given)
    _, trace_id, span, flags = event["traceparent"].split("-")

    assert (event["reason"], flags) == (reason, "01")
    is_joined = given == CONTEXT
    assert (trace_id == CONTEXT.split("-")[1]) == is_joined
    assert event["parent_span"] == (CONTEXT.split("-")[2] if is_joined else "")
    assert span != CONTEXT.split("-")[2]


def test_a_traceparent_that_is_not_sampled_is_traced_only_if_it_is_slow(sampled):
    event, _ = sampled.ask("/v1/sums", {"act": "sleep", "seconds": 0.3}, traceparent=NOT_SAMPLED)

    assert event["reason"] == "slow"
    assert event["traceparent"].endswith("-00")
    assert event["parent_span"] == NOT_SAMPLED.split("-")[2]


def test_the_stages_of_a_pipeline_have_a_batch_each(sampled):
    event, _ = sampled.ask("/stages/predict", {"act": "sleep", "seconds": 2.0})
    check(event)
    slowest = max(event["spans"], key=lambda span: span["duration_s"])

    assert [batch["stage"] for batch in event["batches"]] == ["decode", "infer", "format"]
    assert (slowest["name"], slowest["stage"]) == ("predict", "infer")
    assert event["batches"][slowest["batch"]]["stage"] == "infer"
    assert slowest["duration_s"] >= 2.0


def test_other_models_of_a_pipeline_are_named(sampled):
    event, status = sampled.ask("/v1/vote", {"x": [1, 2]})
    check(event)

    assert status == 200
    assert "echo" in [batch["stage"] for batch in event["batches"]]


def test_a_call_of_another_model_is_a_span_of_the_same_trace(sampled):
    event, status = sampled.ask("/calling/predict", {"value": 1}, traceparent=CONTEXT)
    wait_until(lambda: called_by(sampled, event), "the call is traced", 20)
    (called,) = called_by(sampled, event)

    assert status == 200
    assert called["traceparent"].split("-")[1] == CONTEXT.split("-")[1]
    assert called["parent_span"] not in ("", CONTEXT.split("-")[2])
    assert check(called)["batches"]


def called_by(traced, event):
    every = traced.events()
    ids = event["request_id"]
    return [each for each in every if (each["request_id"], each["model"]) == (ids, "called")]


def test_every_element_of_a_list_has_its_batches(sampled):
    event, _ = sampled.ask("/v1/each", ["a", "bb", "ccc"])
    check(event)

    inputs = sum(batch["size"] for batch in event["batches"] if batch["stage"] == "infer")
    assert inputs >= 3


def test_a_stream_is_one_predict_with_its_outputs(sampled):
    event, status = sampled.ask("/counting/predict", {"to": 5}, Accept="application/jsonl")
    check(event)
    (predict,) = [span for span in event["spans"] if span["name"] == "predict"]

    assert status == 200
    assert predict["attributes"]["outputs"] == 5
    assert 0 <= predict["attributes"]["first_output_s"] <= predict["duration_s"]


def test_an_input_that_is_refused_is_traced_as_well(sampled):
    event, status = sampled.ask("/v1/sums", "no object")

    assert status == event["status"] == 422
    assert check(event)["batches"]


def test_what_is_not_a_prediction_is_not_traced(sampled):
    sampled.server.get("/ping")
    sampled.ask("/echo/predict", 1)

    assert "/ping" not in {event["path"] for event in sampled.events()}


def test_a_slow_upload_is_received_for_long(slow):
    body = json.dumps("x" * 300_000).encode()
    head = b"POST /echo/predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    head += b"X-Request-Id: upload\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", slow.server.port), timeout=30) as client:
        client.sendall(head + body[:1000])
        threading.Event().wait(2.0)  # so long that the server has read the head before
        client.sendall(body[1000:])
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    event = check(slow.event("upload"))
    (receive,) = [span for span in event["spans"] if span["name"] == "receive"]

    assert event["reason"] == "slow"
    assert receive["start_s"] == 0
    assert receive["duration_s"] >= 0.29


def test_a_slow_reader_is_sent_to_for_long(slow):
    body = json.dumps("x" * 8_000_000).encode()
    head = b"POST /echo/predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    head += b"X-Request-Id: reader\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.socket() as client:
        client.settimeout(30)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        client.connect(("127.0.0.1", slow.server.port))
        client.sendall(head + body)
        first = client.recv(100)
        threading.Event().wait(0.5)
        left = len(body)
        while left > 0:
            left -= len(client.recv(1 << 20))
    event = check(slow.event("reader"))
    (send,) = [span for span in event["spans"] if span["name"] == "send"]

    assert first.startswith(b"HTTP/1.1 200")
    assert send["duration_s"] >= 0.45
    assert event["batches"]


def test_company_in_a_batch_is_named(slow):
    with ThreadPoolExecutor(8) as pool:
        orders = [{"act": "sleep", "seconds": 0.2}] * 8
        found = list(pool.map(lambda order: slow.ask("/v1/sums", order), orders))
    batches = [batch for event, _ in found for batch in event["batches"]]
    together = max(batches, key=lambda batch: batch["size"])

    assert together["size"] > 1
    assert len(together["request_ids"]) == together["size"]


def test_a_request_whose_time_is_over_says_where_it_was(slow):
    value = {"act": "sleep", "seconds": 5.0}
    event, status = slow.ask("/v1/sums", value, X_Request_Timeout_Ms="3000")
    last = [span for span in check(event)["spans"] if span["name"] == "predict"][-1]

    assert status == event["status"] == 504
    assert last["attributes"] == {"is_answered": False}
    assert event["batches"][last["batch"]]["stage"] == "infer"


def test_a_request_that_a_crash_hits_says_where_it_was(sampled):
    event, status = sampled.ask("/v1/sums", {"act": "die"})

    assert status == event["status"] == 503
    assert check(event)["batches"][-1]["stage"] == "infer"


def test_a_client_that_leaves_is_traced(slow):
    body = json.dumps({"act": "sleep", "seconds": 3.0}).encode()
    head = b"POST /v1/sums HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    head += b"X-Request-Id: leaving\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", slow.server.port), timeout=30) as client:
        client.sendall(head + body)
        threading.Event().wait(0.3)

    assert check(slow.event("leaving"))["status"] == 0


def test_a_reload_that_replaces_front_ends_and_observer_loses_no_trace(slow):
    body = json.dumps({"act": "sleep", "seconds": 1.2}).encode()
    slow.server.post("/v1/sums", body, X_Request_Id="reload")
    slow.server.process.send_signal(signal.SIGHUP)

    assert check(slow.event("reload"))["status"] == 200


def test_only_the_slowest_of_many_are_told(slow):
    before = len(slow.events())
    connection = httpx.Client(base_url=slow.server.url)
    for _ in range(2000):
        connection.post("/echo/predict", content=b"1", headers=JSON)
    connection.close()
    slow.ask("/v1/sums", {"act": "sleep", "seconds": 2.0})

    assert len(slow.events()) - before < 100


def test_http2_is_traced_alike(serve, tmp_path):
    traced = start(serve, tmp_path, ECHO, share="1")
    with httpx.Client(http1=False, http2=True, base_url=traced.server.url) as client:
        large = json.dumps("x" * 300_000)
        for name, body in (("small", "1"), ("large", large)):
            found = client.post(
                "/echo/predict", content=body, headers=JSON | {"X-Request-Id": name}
            )
            assert (found.status_code, found.http_version) == (200, "HTTP/2")
    for name in ("small", "large"):
        event = check(traced.event(name))
        assert [each for each in names(event) if each != "receive"][-1] == "send"
        assert event["batches"]
