# SPDX-License-Identifier: Apache-2.0
"""The same requests to servekit and to Triton: statuses of one class, and the same numbers."""

import json

import pytest

from .conftest import write_model
from .triton import Triton, find_triton, write_triton_model

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(find_triton() is None, reason="TRITON_ENVIRONMENT names no Triton"),
]
JSON = "application/json"
#: why statuses are of different classes; the page about SageMaker says so, too
REASONS = {
    "not JSON": "Triton reports a body that it cannot parse as its own failure",
    "not an object": "the same",
    "a string for a number": "the same",
    "another media type": "Triton does not look at Content-Type",
    "no media type": "the same",
    "models of an endpoint with one": "Triton always has the requests of multi-model endpoints",
}


def numbers(*values):
    """Return a prediction as servekit and as Triton take it."""
    tensor = {"name": "x", "datatype": "FP32", "shape": [len(values)], "data": list(values)}
    return json.dumps({"x": list(values)}).encode(), json.dumps({"inputs": [tensor]}).encode()


def same(body):
    return body, body


#: by name: method, path, the bodies for servekit and for Triton, Content-Type
CASES = {
    "ping": ("GET", "/ping", same(None), ""),
    "ping with POST": ("POST", "/ping", same(b""), ""),
    "invocations with GET": ("GET", "/invocations", same(None), ""),
    "invocations with PUT": ("PUT", "/invocations", same(b"1"), JSON),
    "numbers": ("POST", "/invocations", numbers(1, 2, 3), JSON),
    "too few numbers": ("POST", "/invocations", numbers(1, 2), JSON),
    "too many numbers": ("POST", "/invocations", numbers(1, 2, 3, 4), JSON),
    "no numbers": ("POST", "/invocations", numbers(), JSON),
    "a string for a number": ("POST", "/invocations", numbers(1, 2, "a"), JSON),
    "a model that fails": ("POST", "/invocations", numbers(-1, 2, 3), JSON),
    "no input": ("POST", "/invocations", (b"{}", b'{"inputs": []}'), JSON),
    "nothing": ("POST", "/invocations", same(b""), JSON),
    "not JSON": ("POST", "/invocations", same(b"{"), JSON),
    "not an object": ("POST", "/invocations", same(b"[]"), JSON),
    "no such path": ("GET", "/other", same(None), ""),
    "another media type": ("POST", "/invocations", numbers(1, 2, 3), "text/plain"),
    "no media type": ("POST", "/invocations", numbers(1, 2, 3), ""),
    "models of an endpoint with one": ("GET", "/models", same(None), ""),
    "a model of an endpoint with one": ("GET", "/models/other", same(None), ""),
}


@pytest.fixture(scope="module")
def both(start, tmp_path_factory):
    """Return servekit and Triton, each with one model."""
    ours, theirs = tmp_path_factory.mktemp("ml"), tmp_path_factory.mktemp("triton") / "models"
    write_model(ours / "model", "Sum")
    write_triton_model(theirs / "sum")
    triton = Triton(find_triton(), theirs, SAGEMAKER_TRITON_DEFAULT_MODEL_NAME="sum")
    try:
        yield start(ours).wait_ready(), triton.wait_ready()
    finally:
        triton.stop()


@pytest.mark.parametrize("name", CASES)
def test_statuses_are_of_one_class(both, name):
    method, path, bodies, content_type = CASES[name]
    answers = [
        server.send(method, path, body, content_type)
        for server, body in zip(both, bodies, strict=True)
    ]
    ours, theirs = (status for status, _, _ in answers)

    assert (ours // 100 != theirs // 100) == (name in REASONS), (ours, theirs)


def test_pings_are_empty(both):
    assert [server.send("GET", "/ping")[2] for server in both] == [b"", b""]


@pytest.mark.parametrize("values", [(1, 2, 3), (0.5, -0.25, 1e6), (0, 0, 0)])
def test_numbers_are_the_same(both, values):
    bodies = numbers(*(0 + value for value in values))
    ours, theirs = (
        json.loads(server.send("POST", "/invocations", body, JSON)[2])
        for server, body in zip(both, bodies, strict=True)
    )

    assert [ours["y"]] == theirs["outputs"][0]["data"]


# ---------------------------------------------------------------- multi-model


@pytest.fixture(scope="module")
def endpoints(start, tmp_path_factory):
    """Return servekit and Triton without a model, and the directories of their models."""
    ours, theirs = tmp_path_factory.mktemp("ml"), tmp_path_factory.mktemp("triton") / "models"
    for name in ("a", "b"):
        write_model(ours / "models" / name / "model", "Sum")
        write_triton_model(theirs / name / "model/sum")
    write_model(ours / "models/broken/model")
    (ours / "models/broken/model/service.py").write_text("raise ValueError")
    write_triton_model(theirs / "broken/model/sum", is_broken=True)
    (theirs.parent / "empty").mkdir()
    options = ("--model-control-mode=explicit",)
    triton = Triton(find_triton(), theirs.parent / "empty", *options)
    try:
        servekit = start(ours, SAGEMAKER_MULTI_MODEL="true").wait_ready()
        yield (servekit, ours / "models"), (triton.wait_ready(), theirs)
    finally:
        triton.stop()


def load(name, directory):
    return {"model_name": name, "url": f"{directory}/{name}/model"}


#: in this order: method, path, the model to load, the status of both
STEPS = [
    ("GET", "/models", "", 200),
    ("GET", "/models/a", "", 404),
    ("POST", "/models/a/invoke", "", 404),
    ("DELETE", "/models/a", "", 404),
    ("POST", "/models", "a", 200),
    ("POST", "/models", "a", 409),
    ("POST", "/models", "b", 200),
    ("GET", "/models", "", 200),
    ("GET", "/models/a", "", 200),
    ("POST", "/models/a/invoke", "", 200),
    ("POST", "/models/b/invoke", "", 200),
    ("DELETE", "/models/a", "", 200),
    ("GET", "/models/a", "", 404),
    ("DELETE", "/models/a", "", 404),
    ("POST", "/models/a/invoke", "", 404),
    ("POST", "/models", "a", 200),
    ("POST", "/models/a/invoke", "", 200),
]


def test_models_come_and_go_with_the_same_statuses(endpoints):
    for (server, directory), body in zip(endpoints, numbers(1, 2, 3), strict=True):
        found = []
        for method, path, model, _ in STEPS:
            sent = json.dumps(load(model, directory)).encode() if model else body
            found.append(server.send(method, path, sent if method == "POST" else None, JSON)[0])

        assert found == [status for *_, status in STEPS]


def test_lists_have_the_same_members(endpoints):
    found = []
    for server, _ in endpoints:
        listed = json.loads(server.send("GET", "/models")[2])["models"]
        found.append([list(listed[0]), sorted(each["modelName"] for each in listed)])

    assert found[0] == found[1]


def test_a_model_that_cannot_be_loaded_is_an_error_of_the_same_class(endpoints):
    statuses = [
        server.send("POST", "/models", json.dumps(load("broken", directory)).encode(), JSON)[0]
        for server, directory in endpoints
    ]

    assert [status // 100 for status in statuses] == [4, 4]
