# SPDX-License-Identifier: Apache-2.0
"""Streams of a real server are recorded, and replayed against versions that differ or do not."""

import json
import queue
from http.client import HTTPConnection
from time import monotonic

import numpy as np
import pytest
from servekit_record.recording import read_calls

from servekit.testing import ServedModel

from .commands import WAIT_S, RecordCommand, run_pytest, servekit

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

STREAMS = 200  #: of each form
WORDS = 20  #: events of each stream
SERVICE = """
import time

from servekit import InputError, Service

class Story(Service):
    def stream(self, text: str):
        for number, word in enumerate(text.split()):
            if word == "stop":
                raise InputError("a story must not stop")
            while word == "endless":
                time.sleep(0.01)
                yield "again"
            yield {"word": word.upper(), "score": number / 7 + (CHANGE)}
"""
CHAT = """
from servekit_openai import AssistantMessage, ChatRequest, ChatService, ToolCall

class Parrot(ChatService):
    def stream(self, request: ChatRequest):
        words = request.messages[-1].text.split()
        for number, word in enumerate(words):
            yield f"{word} " if not (CHANGE) else "other "
        if words[0] == "w7":
            yield AssistantMessage(tool_calls=[ToolCall("find", "{}")])
"""
#: path, body and Accept of each form of a stream
FORMS = {
    "events": ("/story/predict", json.dumps, "text/event-stream"),
    "lines": ("/story/predict", json.dumps, "application/x-ndjson"),
    "generate": (
        "/v2/models/story/generate_stream",
        lambda text: json.dumps({"text_input": text}),
        "*/*",
    ),
}


def model(directory, name, source, change):
    directory.mkdir()
    (directory / "service.py").write_text(source.replace("CHANGE", change))
    service = "service:Story" if source is SERVICE else "service:Parrot"
    (directory / "model.toml").write_text(
        f'name = "{name}"\nversion = "1.0"\nservice = "{service}"\n'
    )
    return directory


def text_of(number):
    return " ".join(f"w{number}-{place}" for place in range(WORDS))


def wait_for_metric(served, line):
    deadline = monotonic() + WAIT_S
    while f"{line}\n" not in served.get("/metrics").body.decode():
        assert monotonic() < deadline, f"no {line} in /metrics"


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A recording of streams in all forms: the first has an error, the last an early end."""
    pytest.importorskip("servekit_oip")
    directory = tmp_path_factory.mktemp("story")
    source = model(directory / "v1", "story", SERVICE, "0")
    with ServedModel(source, plugin="record.allow=true", run_dir=directory) as served:
        served.directory = directory
        served.wait_ready()
        recorder = RecordCommand(served, directory / "calls.rec", "--redact", "X-Who")
        headers = {"Authorization": "Bearer s3cret", "X-Who": "me"}
        for path, encode, accept in FORMS.values():
            for number in range(STREAMS):
                text = "w stop" if number == 0 else text_of(number)
                body, accepted = encode(text).encode(), headers | {"Accept": accept}
                assert served.post(path, body, headers=accepted).status == 200
        leave_a_stream(served)
        wait_for_metric(served, 'servekit_streams_cancelled_total{model="story",version="1.0"} 1.0')
        assert recorder.stop()["calls"] == 3 * STREAMS + 1
    return directory / "calls.rec"


def leave_a_stream(served):
    """Ask for a stream without an end, and disconnect after its first piece."""
    connection = HTTPConnection(served.url.partition("://")[2], timeout=WAIT_S)
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
    connection.request("POST", "/story/predict", b'"endless"', headers)
    assert connection.getresponse().read1(10)
    connection.close()


def test_streams_are_recorded_with_their_bodies_and_without_secrets(story):
    *whole, last = read_calls(story)

    assert [call.has_whole_body for call in whole] == [True] * 3 * STREAMS
    assert all(0 < call.stream.first_s <= call.duration_s for call in whole)
    assert "W7-19" in whole[7].response.text
    assert '"a story must not stop"' in whole[0].response.text
    assert (last.stream.incomplete, last.has_whole_body) == ("the client left", False)
    text = story.read_text()
    assert "s3cret" not in text
    assert '"x-who":' not in text


def test_the_same_streams_have_no_differences(story, tmp_path):
    same = model(tmp_path / "v2", "story", SERVICE, "0")
    found = servekit("replay", story, same, "--json")

    assert found.returncode == 0, found.stdout + found.stderr
    report = json.loads(found.stdout)
    counts = [report[name] for name in ("calls", "streams", "incomplete_streams", "different")]
    assert counts == [3 * STREAMS + 1, 3 * STREAMS + 1, 1, 0]
    for name in ("first_piece", "whole_stream"):
        assert 0 < report[name]["recorded_s"]["median"] < 1
        assert 0 < report[name]["replayed_s"]["median"] < 1


def test_one_different_event_is_found(story, tmp_path):
    change = "1e-4 if word == 'w150-17' else 0"
    changed = model(tmp_path / "v2", "story", SERVICE, change)
    found = servekit("replay", story, changed)

    assert found.returncode == 1, found.stdout + found.stderr
    told = [line for line in found.stdout.splitlines() if line.startswith("call ")]
    assert ["event 18.data" in line or "line 18.output" in line for line in told] == [True] * 3
    assert f"{3 * STREAMS + 1} calls ({3 * STREAMS + 1} streamed), 3 different" in found.stdout
    assert "only the status compared, as not recorded to the end: 1" in found.stdout
    tolerant = servekit("replay", story, changed, "--tolerance", "1e-3")
    assert tolerant.returncode == 0, tolerant.stdout + tolerant.stderr


def test_a_stream_that_ends_with_an_error_is_found(story, tmp_path):
    changed = model(tmp_path / "v2", "story", SERVICE, "1 / 0 if word == 'w3-5' else 0")
    found = servekit("replay", story, changed, "--first", 10)

    assert found.returncode == 1, found.stdout + found.stderr
    assert "call 4  /story/predict  event 6 is an error: Prediction failed" in found.stdout


@pytest.fixture(scope="module")
def chats(tmp_path_factory):
    """A recording of chats, whole and streamed."""
    pytest.importorskip("servekit_openai")
    directory = tmp_path_factory.mktemp("chats")
    source = model(directory / "v1", "parrot", CHAT, "0")
    with ServedModel(source, plugin="record.allow=true", run_dir=directory) as served:
        served.directory = directory
        served.wait_ready()
        recorder = RecordCommand(served, directory / "calls.rec", "--model", "parrot")
        for number in range(STREAMS):
            words = [f"w{number}", *text_of(number).split()]
            asked = {
                "model": "parrot",
                "messages": [{"role": "user", "content": " ".join(words)}],
                "stream": number % 4 != 0,
            }
            body = json.dumps(asked).encode()
            assert served.post("/v1/chat/completions", body).status == 200
        assert recorder.stop()["calls"] == STREAMS
    return directory / "calls.rec"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("0", []),
        ("word == 'w101-19'", ['event 21.data.choices[0].delta.content: "other "']),
        ("word == 'w100-19'", ["body.choices[0].message.content: "]),
    ],
    ids=["the same", "one chunk", "one answer"],
)
def test_chats_of_openai(chats, tmp_path, change, told):
    changed = model(tmp_path / "v2", "parrot", CHAT, change)
    found = servekit("replay", chats, changed)

    assert found.returncode == bool(told), found.stdout + found.stderr
    lines = [line for line in found.stdout.splitlines() if line.startswith("call ")]
    assert [each in line for each, line in zip(told, lines, strict=True)] == [True] * len(told)


@pytest.mark.parametrize("failed", [0, 1])
def test_streams_become_tests(story, tmp_path, failed):
    change = "1e-4 if word == 'w7-3' else 0" if failed else "0"
    target, path = model(tmp_path / "v2", "story", SERVICE, change), tmp_path / "test_calls.py"
    written = servekit("replay", story, target, "--first", 10, "--pytest", path)
    assert written.returncode == 0, written.stderr

    told = f"{failed} failed, {10 - failed} passed" if failed else "10 passed"
    output = run_pytest(path)
    assert told in output
    assert ("AssertionError: event 4.data.score: " in output) == bool(failed)


TALE = """
from servekit import Service

class Parrot(Service):
    def stream(self, text: str):
        for number, word in enumerate(text.split()):
            yield word.upper() if not (CHANGE) else "other"
"""


@pytest.fixture(scope="module")
def tales(tmp_path_factory):
    """A recording of streams by gRPC."""
    pytest.importorskip("servekit_oip")
    triton = pytest.importorskip("tritonclient.grpc")
    directory = tmp_path_factory.mktemp("tales")
    source = model(directory / "v1", "tale", TALE, "0")
    plugin = ["record.allow=true", "oip.grpc=127.0.0.1:0"]
    with ServedModel(source, plugin=plugin, run_dir=directory) as served:
        served.directory = directory
        served.wait_ready()
        address = served.log.wait_for("output", subject="front-end")["message"]
        recorder = RecordCommand(served, directory / "calls.rec")
        answers = queue.Queue()
        with triton.InferenceServerClient(address.removeprefix("gRPC at ")) as client:
            client.start_stream(callback=lambda result, error: answers.put(error or result))
            for number in range(10):
                tensor = triton.InferInput("input", [1, 1], "BYTES")
                tensor.set_data_from_numpy(np.array([[text_of(number)]], object))
                client.async_stream_infer("tale", [tensor])
            client.stop_stream()
        assert answers.qsize() == 10 * WORDS
        assert recorder.stop()["calls"] == 10
    return directory / "calls.rec"


@pytest.mark.parametrize(
    ("change", "different"), [("0", 0), ("word == 'w7-13'", 1)], ids=["the same", "one message"]
)
def test_streams_by_grpc(tales, tmp_path, change, different):
    target = model(tmp_path / "v2", "tale", TALE, change)
    with ServedModel(target, plugin="oip.grpc=127.0.0.1:0") as served:
        found = servekit("replay", tales, served.wait_ready().url, "--json")

    report = json.loads(found.stdout)
    assert (report["calls"], report["streams"], report["different"]) == (10, 10, different)
