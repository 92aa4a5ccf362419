# SPDX-License-Identifier: Apache-2.0
"""A server with a model whose requests have rows."""

import io
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import BIN

MODEL = Path(__file__).parent / "models" / "rowed"
WAIT_S = 60
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(serve):
    return serve("--models", MODEL, "--large-body=64K")


def rows(count, first=0):
    """Return an array whose rows add up to *first*, *first* + 1 ..."""
    numbers = np.arange(first, first + count, dtype="<f4")
    return np.stack([numbers - 1, np.ones_like(numbers)], axis=1)


def ask(server, array):
    status, _, body = server.post("/rowed/predict", json.dumps({"x": array.tolist()}).encode())
    return status, json.loads(body)


def test_requests_with_rows_are_served(server):
    """Of any number, at the same time, each gets the sums of its own rows."""
    counts = [1, 3, 20, 2, 8, 1, 7, 40] * 4
    arrays = [rows(count, 1000 * place) for place, count in enumerate(counts)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda array: ask(server, array), arrays))

    for (status, answer), array in zip(found, arrays, strict=True):
        assert (status, answer["prediction"]["y"]) == (200, array.sum(axis=1).tolist())


@pytest.mark.parametrize("count", [3, 20_000])
def test_rows_in_binary_forms(server, count):
    array, file = rows(count), io.BytesIO()
    np.save(file, array)
    for content_type, body in (
        ("application/x-npy", file.getvalue()),
        ("application/octet-stream", array.tobytes()),
    ):
        accept = {"Accept": "application/x-npy"}
        status, _, answer = server.post("/rowed/predict", body, content_type, **accept)

        assert status == 200
        assert np.array_equal(np.load(io.BytesIO(answer)), array.sum(axis=1))


def test_rows_of_another_shape_are_refused_with_both_shapes(server):
    status, answer = ask(server, np.ones((2, 3)))

    assert (status, answer["detail"]) == (422, "x: shape [2, 3], expected [-1, 2]")


def test_metrics_count_rows(server):
    before = sum_of(server, "servekit_batch_size_sum")
    ask(server, rows(20))

    assert sum_of(server, "servekit_batch_size_sum") - before == 20


def sum_of(server, name):
    text = server.get("/metrics")[1].decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


def test_the_description_shows_the_axis(server):
    document = json.loads(server.get("/openapi.json")[1])
    content = document["paths"]["/rowed/predict"]["post"]["requestBody"]["content"]
    forms = content["application/json"]["schema"]["anyOf"]

    assert forms[1]["type"] == "array"
    assert "minItems" not in forms[1]
    assert forms[1]["items"]["minItems"] == 2


def test_check_and_snippets_show_the_axis(tmp_path):
    def run(*command):
        found = subprocess.run(
            [BIN / "servekit", *command], capture_output=True, text=True, timeout=WAIT_S, check=True
        )
        return found.stdout

    assert "x  float32[any, 2]" in run("check", str(MODEL))
    assert "[[1,2],[3,4]]" in run("snippet", str(MODEL), "--format", "curl")
