# SPDX-License-Identifier: Apache-2.0
"""openai's client and ``/v1/embeddings``."""

import json
import os
import re
import signal
import struct
import threading
from base64 import b64decode
from contextlib import contextmanager

import openai
import pytest

from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
HEADERS = {"Authorization": "Bearer secret-token"}


def vectors(client, given, model="embed", **options):
    found = client.embeddings.create(model=model, input=given, **options)
    assert [each.index for each in found.data] == list(range(len(found.data)))
    return [list(each.embedding) for each in found.data]


@pytest.mark.parametrize("options", [{}, {"encoding_format": "float"}], ids=["base64", "float"])
@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        pytest.param("four", [4], id="a text"),
        pytest.param(["four", "a"], [4, 1], id="texts"),
        pytest.param([1, 2, 3], [3], id="token ids"),
        pytest.param([[1], [1, 2]], [1, 2], id="lists of token ids"),
        pytest.param([f"{'a' * at}b" for at in range(50)], [*range(1, 51)], id="many"),
    ],
)
def test_inputs(client, given, sizes, options):
    assert [vector[0] for vector in vectors(client, given, **options)] == sizes


def test_the_client_asks_for_base64_and_others_get_floats(served):
    def embedding(body):
        response = served.post("/v1/embeddings", json.dumps(body).encode(), headers=HEADERS)
        return response.json()["data"][0]["embedding"]

    body = {"model": "rows", "input": "a"}
    packed = embedding({**body, "encoding_format": "base64"})

    assert embedding(body) == [3, 4, 12]
    assert struct.unpack("<3f", b64decode(packed)) == (3, 4, 12)


@pytest.mark.parametrize(
    ("dimensions", "vector"),
    [
        pytest.param(3, [3, 4, 12], id="all of them"),
        pytest.param(2, [0.6, 0.8], id="fewer, scaled to length 1"),
        pytest.param(1, [1], id="one"),
    ],
)
def test_dimensions(client, dimensions, vector):
    found = vectors(client, "a", "rows", dimensions=dimensions)

    assert found == [pytest.approx(vector)]


def test_tokens_are_counted_or_estimated(client):
    found = client.embeddings.create(model="embed", input=["counted", "12345678", "1"])

    assert found.usage.prompt_tokens == found.usage.total_tokens == 100 + 2 + 1


def test_inputs_of_several_clients_share_batches(client, served):
    found = []

    def ask():
        found.extend(vectors(client, ["a", "b"]))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    with stopped_worker(served):
        for thread in threads:
            thread.start()
        wait_until(lambda: tasks(served) == 4, "some clients have not asked")
    for thread in threads:
        thread.join()

    assert (len(found), max(size for _, _, size in found)) == (8, 4)


@contextmanager
def stopped_worker(served):
    pid = served.log.find("worker_ready", model="embed")[-1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def tasks(served):
    """Return how many tasks wait or run."""
    text = served.get("/metrics").body.decode()
    gauge = r'^servekit_tasks_(?:waiting|running)\{model="embed".*\} (\S+)'
    return sum(map(float, re.findall(gauge, text, re.MULTILINE)))


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        pytest.param({"input": []}, "input", "expected 1 to 2048, got 0", id="none"),
        pytest.param({"input": {"a": 1}}, "input", "a string, token ids", id="an object"),
        pytest.param({"input": "refuse"}, None, "not that", id="refused by the service"),
        pytest.param({"input": "a", "dimensions": 0}, "dimensions", ">= 1", id="no dimensions"),
        pytest.param({"input": "a", "dimensions": 9}, "dimensions", "has 3", id="too many"),
        pytest.param(
            {"input": "a", "encoding_format": "x"}, "encoding_format", "float", id="format"
        ),
    ],
)
def test_what_is_refused(client, body, param, message):
    with pytest.raises(openai.BadRequestError, match=message) as caught:
        client.post("/embeddings", body={"model": "embed", **body}, cast_to=object)

    assert caught.value.param == param
