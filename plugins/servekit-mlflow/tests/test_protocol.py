# SPDX-License-Identifier: Apache-2.0
"""The front-end half alone: which requests it takes, and what it says of health."""

from types import SimpleNamespace

import pytest
from servekit_mlflow.protocol import MLflowProtocol

from servekit.errors import NotReady, QueueFull, RouteNotFound
from servekit.extension import HttpResponse, PredictionCall, RequestHead


def protocol(*reasons, **tasks):
    """Return the protocol of a server with a model of each task; ``None`` has not been loaded."""
    models = {
        name: SimpleNamespace(interface=None if task is None else SimpleNamespace(task=task))
        for name, task in tasks.items()
    }
    return MLflowProtocol(SimpleNamespace(models=models, why_not_ready=lambda: reasons))


def head(path, method=b"GET"):
    return RequestHead(method, path, b"", {})


@pytest.mark.parametrize("path", [b"/ping", b"/health", b"/version", b"/invocations"])
@pytest.mark.parametrize("tasks", [{}, {"a": ""}, {"a": None}, {"a": "chat"}])
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


def test_errors_tell_when_to_try_again():
    response = protocol(a="mlflow").error_response(QueueFull(), "1")

    assert response.status == 429
    assert b"REQUEST_LIMIT_EXCEEDED" in response.body
    assert ("Retry-After", "1") in response.fields
