# SPDX-License-Identifier: Apache-2.0
"""The front-end half alone: which requests it takes, and what it says of health."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from servekit_mlflow.protocol import MLflowProtocol

from servekit.errors import NotReady, QueueFull, RouteNotFound
from servekit.extension import HttpResponse, ModelView, PredictionCall, RequestHead


def protocol(*reasons, **models):
    """Return the protocol of a server with a model of each task.

    One that has not been loaded is given by its directory, or as ``None`` before it has one.
    """
    views = {
        name: ModelView(
            name=name,
            version="1",
            interface=SimpleNamespace(task=each) if isinstance(each, str) else None,
            directory=each if isinstance(each, Path) else None,
        )
        for name, each in models.items()
    }
    return MLflowProtocol(SimpleNamespace(models=views, why_not_ready=lambda: reasons))


@pytest.fixture
def unloaded(tmp_path):
    """Return the directory of a model of MLflow."""
    (tmp_path / "MLmodel").touch()
    return tmp_path


def head(path, method=b"GET"):
    return RequestHead(method, path, b"", {})


@pytest.mark.parametrize("path", [b"/ping", b"/health", b"/version", b"/invocations"])
@pytest.mark.parametrize(
    "tasks", [{}, {"a": ""}, {"a": None}, {"a": Path("/nowhere")}, {"a": "chat"}]
)
def test_a_server_without_mlflow_models_is_left_alone(path, tasks):
    assert protocol(**tasks).find(head(path)) is None


@pytest.mark.parametrize("path", [b"/ping", b"/health"])
def test_a_server_that_is_ready(path):
    answer = protocol(a="mlflow", b="mlflow").find(head(path))

    assert isinstance(answer, HttpResponse)
    assert (answer.status, answer.body) == (200, b"\n")


def test_health_is_that_of_all_models():
    found = protocol("b: loading", a="mlflow", b=None)

    assert found.find(head(b"/ping")) is None  # servekit says why
    assert isinstance(found.find(head(b"/health")), NotReady)


def test_ping_of_a_server_with_other_models_is_that_of_servekit():
    assert protocol(a="mlflow", b="").find(head(b"/ping")) is None


def test_invocations():
    post = head(b"/invocations", b"POST")

    assert protocol(a="mlflow", b="").find(post) == PredictionCall(
        model="a", endpoint="invocations"
    )
    assert isinstance(protocol(a="mlflow", b="mlflow").find(post), RouteNotFound)


def test_a_server_whose_only_model_of_mlflow_loads(unloaded):
    found = protocol("a: loading", a=unloaded)

    assert found.find(head(b"/ping")) is None  # servekit says why
    assert isinstance(found.find(head(b"/health")), NotReady)
    assert isinstance(found.find(head(b"/invocations", b"POST")), NotReady)
    assert found.find(head(b"/version")).status == 200


@pytest.mark.parametrize("path", [b"/ping", b"/health"])
def test_a_model_that_sleeps_since_the_start_leaves_a_server_ready(path, unloaded):
    answer = protocol(a="mlflow", b=unloaded).find(head(path))

    assert (answer.status, answer.body) == (200, b"\n")


def test_invocations_of_two_models_are_refused_before_both_have_loaded(unloaded):
    found = protocol(a="mlflow", b=unloaded)

    assert isinstance(found.find(head(b"/invocations", b"POST")), RouteNotFound)


def test_errors_tell_when_to_try_again():
    response = protocol(a="mlflow").error_response(QueueFull(), "1")

    assert response.status == 429
    assert b"REQUEST_LIMIT_EXCEEDED" in response.body
    assert ("Retry-After", "1") in response.fields
