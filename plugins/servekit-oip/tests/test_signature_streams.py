# SPDX-License-Identifier: Apache-2.0
"""Services that stream and have a signature with several inputs, over HTTP and over gRPC."""

import json
import os
import queue
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from servekit.testing import ServedModel

pytest.importorskip("tritonclient.grpc", reason="pip install 'tritonclient[grpc]'")
pytest.importorskip("grpc_health.v1", reason="pip install 'servekit-oip[grpc]'")

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PAUSE_S = 5.0  #: longer than the silence that a stream of events may have
SERVICES = f"""
import asyncio, time
from servekit import InputError, Service

class Tale(Service):
    def stream(self, row):
        text = row["text_input"][0]
        for place in range(row["times"][0]):
            if place == 3:
                raise InputError("too long")
            if place and text == "pause":
                time.sleep({PAUSE_S})
            yield {{"text_output": [f"{{text}}{{place}} "], "place": place}}

class AsyncTale(Service):
    async def stream(self, row):
        for output in Tale().stream(row):
            await asyncio.sleep(0)
            yield output

class Repeat(Service):
    def stream(self, row):
        for value in row["IN"]:
            yield {{"OUT": [value]}}
"""
SIGNATURE = """
[signature]
inputs = [
    { name = "text_input", dtype = "str", shape = [1] },
    { name = "times", dtype = "int32", shape = [1] },
]
outputs = [
    { name = "text_output", dtype = "str", shape = [1] },
    { name = "place", dtype = "int32", shape = [] },
]
"""
#: as the model of this name in the examples of Triton's client
REPEAT = """
name = "repeat_int32"
service = "service:Repeat"
[signature]
inputs = [
    { name = "IN", dtype = "int32", shape = [-1] },
    { name = "DELAY", dtype = "uint32", shape = [-1] },
    { name = "WAIT", dtype = "uint32", shape = [1] },
]
outputs = [{ name = "OUT", dtype = "int32", shape = [1] }]
"""
EXAMPLES = os.environ.get("OIP_TRITON_EXAMPLES", "")
MODELS = pytest.mark.parametrize("model", ["tale", "async_tale"])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    store = tmp_path_factory.mktemp("tales")
    tales = {
        name: f'name = "{name}"\nversion = "1"\nservice = "service:{service}"\n' + SIGNATURE
        for name, service in (("tale", "Tale"), ("async_tale", "AsyncTale"))
    }
    for name, toml in {**tales, "repeat_int32": REPEAT}.items():
        directory = store / name
        directory.mkdir()
        (directory / "service.py").write_text(SERVICES)
        (directory / "model.toml").write_text(toml)
    models = sorted(store.iterdir())
    with ServedModel(*models, plugin=["oip.grpc=127.0.0.1:0"]) as found:
        yield found.wait_ready()


@pytest.fixture
def address(served):
    return served.log.wait_for("output", subject="front-end")["message"].removeprefix("gRPC at ")


@pytest.fixture
def client(address):
    with triton.InferenceServerClient(address) as found:
        yield found


def generate(served, model, verb, body):
    return served.post(f"/v2/models/{model}/{verb}", json.dumps(body).encode())


def events(response):
    found = response.body.split(b"\n\n")[:-1]
    return [json.loads(each.removeprefix(b"data: ")) for each in found if each != b": "]


def tensors(text, times, rows=1):
    found = [triton.InferInput("text_input", [rows, 1], "BYTES")]
    found[0].set_data_from_numpy(np.full((rows, 1), text, object))
    found.append(triton.InferInput("times", [rows, 1], "INT32"))
    found[1].set_data_from_numpy(np.full((rows, 1), times, np.int32))
    return found


def stream(client, model, *requests, **how):
    """Return what comes for each of *requests* on one stream, in order."""
    answers = queue.Queue()
    client.start_stream(callback=lambda result, error: answers.put(result or error))
    for asked in requests:
        client.async_stream_infer(model, asked, **how)
    client.stop_stream()
    return list(answers.queue)


# ------------------------------------------------------------ HTTP


@MODELS
@pytest.mark.parametrize("is_nested", [False, True])
def test_events_have_every_output(served, model, is_nested):
    rest = {"parameters": {"times": 2}} if is_nested else {"times": 2}
    response = generate(served, model, "generate_stream", {"text_input": "a", **rest})

    assert (response.status, response.content_type) == (200, "text/event-stream")
    assert [(each["text_output"], each["place"]) for each in events(response)] == [
        ("a0 ", 0), ("a1 ", 1),
    ]  # fmt: skip


@MODELS
def test_a_whole_generation_joins_strings_and_lists_numbers(served, model):
    found = generate(served, model, "generate", {"text_input": "a", "times": 2})

    assert found.json() == {
        "model_name": model, "model_version": "1", "text_output": "a0 a1 ", "place": [0, 1],
    }  # fmt: skip


@MODELS
def test_an_error_ends_the_events(served, model):
    response = generate(served, model, "generate_stream", {"text_input": "a", "times": 4})

    assert events(response)[-1] == {"error": "too long"}


@MODELS
@pytest.mark.parametrize(
    "body", [{"text_input": "a"}, {"text_input": "a", "times": "b"}, {"text_input": 1, "times": 1}]
)
def test_inputs_that_are_missing_or_wrong_are_refused(served, model, body):
    response = generate(served, model, "generate_stream", body)

    assert (response.status, list(response.json())) == (400, ["error"])


@MODELS
def test_infer_says_where_outputs_come_one_by_one(served, client, model):
    inputs = [
        {"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": ["a"]},
        {"name": "times", "datatype": "INT32", "shape": [1, 1], "data": [2]},
    ]
    response = generate(served, model, "infer", {"inputs": inputs})

    assert response.status == 400
    assert "use generate_stream" in response.json()["error"]
    with pytest.raises(InferenceServerException, match="ModelStreamInfer") as caught:
        client.infer(model, tensors("a", 2))
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_a_pause_is_filled_with_comments(served):
    asked = {"text_input": "pause", "times": 2}
    response = generate(served, "tale", "generate_stream", asked)

    assert b"\n\n: \n\ndata: " in response.body
    assert len(events(response)) == 2


# ------------------------------------------------------------ gRPC


@MODELS
def test_responses_have_every_output(client, model):
    found = stream(client, model, tensors("a", 2), tensors("b", 1))

    assert [each.as_numpy("text_output").tolist() for each in found] == [
        [[b"a0 "]], [[b"a1 "]], [[b"b0 "]],
    ]  # fmt: skip
    assert [each.as_numpy("place").tolist() for each in found] == [[0], [1], [0]]


@MODELS
def test_responses_have_the_outputs_that_are_asked_for(client, model):
    wanted = [triton.InferRequestedOutput("place")]
    found = stream(client, model, tensors("a", 1), outputs=wanted)

    assert [[each.name for each in found[0].get_response().outputs]] == [["place"]]


@MODELS
def test_an_error_does_not_end_the_stream(client, model):
    *good, error, last = stream(client, model, tensors("a", 4), tensors("b", 1))

    assert len(good) == 3
    assert "too long" in str(error)
    assert last.as_numpy("place").tolist() == [0]


@MODELS
def test_a_stream_has_one_row(client, model):
    (error,) = stream(client, model, tensors("a", 1, rows=2))

    assert "a stream has one input, got 2" in str(error)


def numbers(**values):
    """Return inputs of ``repeat_int32`` without an axis of rows, changed by *values*."""
    kinds = {"IN": "INT32", "DELAY": "UINT32", "WAIT": "UINT32"}
    given = {"IN": [7, 8, 9], "DELAY": [0, 0, 0], "WAIT": [0]} | values
    found = []
    for name, kind in kinds.items():
        array = np.array(given[name], kind.lower())
        found.append(triton.InferInput(name, array.shape, kind))
        found[-1].set_data_from_numpy(array)
    return found


def test_tensors_need_no_axis_of_rows(client):
    found = stream(client, "repeat_int32", numbers(), numbers(IN=[]), numbers(IN=[5]))

    assert [each.as_numpy("OUT").tolist() for each in found] == [[7], [8], [9], [5]]


def test_all_tensors_have_the_axis_of_rows_or_none_has(client):
    error, last = stream(client, "repeat_int32", numbers(WAIT=[[0]]), numbers(IN=[5]))

    assert "input 'IN': shape is [3], expected [-1, -1]" in str(error)
    assert last.as_numpy("OUT").tolist() == [5]


@pytest.mark.skipif(not EXAMPLES, reason="OIP_TRITON_EXAMPLES: the examples of tritonclient")
def test_the_example_of_a_stream(address):
    command = [sys.executable, str(Path(EXAMPLES, "simple_grpc_custom_repeat.py")), "-u", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS" in done.stdout
