# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch as outputs, from stage to stage, and in streams."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")
MODEL = Path(__file__).parent / "models" / "tensors"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(serve):
    return serve("--models", MODEL)


def ask(server, path, value, **headers):
    status, _, body = server.post(path, json.dumps(value).encode(), **headers)
    return status, body


def test_tensors_pass_from_stage_to_stage(server):
    status, body = ask(server, "/tensors/predict", [1.5, -2])

    assert (status, json.loads(body)) == (200, {"prediction": {"y": [3, -4]}})


def test_a_tensor_is_an_npy_file(server):
    status, body = ask(server, "/tensors/predict", [1, 2], Accept="application/x-npy")

    assert status == 200
    assert np.array_equal(np.load(io.BytesIO(body)), np.array([2, 4], np.float32))


@pytest.mark.parametrize(
    ("name", "status", "expected"),
    [("mapping", 200, {"a": [[[0.5, 1]], 0.5]}), ("response", 201, [[0.5, 1]])],
)
def test_tensors_may_be_anywhere_in_an_output(server, name, status, expected):
    found, body = ask(server, "/v1/outputs", name)

    assert (found, json.loads(body)["prediction"]) == (status, expected)


def test_a_tensor_that_is_not_an_array_is_named_in_the_log(server):
    assert ask(server, "/v1/outputs", "sparse")[0] == 500
    assert "to_dense" in server.wait_for("a torch.Tensor is not an array of NumPy")


def test_a_stream_of_tensors(server):
    status, body = ask(server, "/v1/stream", 3, Accept="text/event-stream")
    data = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]

    assert status == 200
    assert data[:3] == ["0", "1", "2"]
