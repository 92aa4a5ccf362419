# SPDX-License-Identifier: Apache-2.0
"""The front-end half alone: which requests it takes while models load, fail to load or sleep."""

import json
from types import SimpleNamespace

import pytest
from flask import Flask
from servekit_torchserve.protocol import TorchServeProtocol
from servekit_torchserve.root import create_root
from torch_archives import write_directory

from servekit.errors import ModelNotFound
from servekit.extension import ModelView, PredictionCall, RequestHead

LOADED, OTHER = "torchserve", "chat"
UNPACKED, NATIVE, PREPARED = "unpacked archive", "unpacked directory", "not unpacked yet"


@pytest.fixture
def server(tmp_path):
    """Return a function that makes a server of models in a state, some with management."""
    directories = {UNPACKED: write_directory(tmp_path / "archive"), NATIVE: tmp_path}

    def make(*reasons, management="", **states):
        models = {
            name: ModelView(
                name=name,
                version="1.0",
                interface=SimpleNamespace(task=state) if state in (LOADED, OTHER) else None,
                directory=directories.get(state),
            )
            for name, state in states.items()
        }
        return SimpleNamespace(
            models=models,
            why_not_ready=lambda: reasons,
            plugin_settings=lambda _: SimpleNamespace(management=management),
        )

    return make


def find(server, path, method=b"GET"):
    return TorchServeProtocol(server).find(RequestHead(method, path, b"", {}))


LIKE_TORCHSERVE = [
    pytest.param("", {"a": LOADED, "b": UNPACKED}, id="one has not loaded"),
    pytest.param("", {"a": UNPACKED}, id="none has loaded"),
    pytest.param(":8081", {"a": LOADED, "b": PREPARED}, id="one is not unpacked"),
    pytest.param(":8081", {"a": PREPARED}, id="none is unpacked"),
    pytest.param(":8081", {}, id="no models"),
]
UNLIKE = [
    pytest.param("", {"a": LOADED, "b": PREPARED}, id="nothing is known of one"),
    pytest.param(":8081", {"a": LOADED, "b": NATIVE}, id="one of servekit has not loaded"),
    pytest.param(":8081", {"a": LOADED, "b": OTHER}, id="one of another plugin"),
    pytest.param("", {}, id="no models"),
]


@pytest.mark.parametrize(("management", "states"), LIKE_TORCHSERVE)
def test_a_server_of_archives_describes_itself_as_torchserve_does(server, management, states):
    ready = server(management=management, **states)
    described = json.loads(find(ready, b"/api-description").body)

    assert json.loads(find(ready, b"/ping").body) == {"status": "Healthy"}
    assert described["info"]["title"] == "TorchServe APIs"
    assert {f"/predictions/{name}" for name in states} <= described["paths"].keys()


@pytest.mark.parametrize("state", [UNPACKED, PREPARED])
def test_a_server_with_a_model_that_is_not_ready_is_unhealthy(server, state):
    found = find(server("b: loading", management=":8081", a=LOADED, b=state), b"/ping")

    assert (found.status, json.loads(found.body)) == (500, {"status": "Unhealthy"})


@pytest.mark.parametrize("path", [b"/ping", b"/api-description"])
@pytest.mark.parametrize(("management", "states"), UNLIKE)
def test_other_servers_describe_themselves(server, management, states, path):
    assert find(server(management=management, **states), path) is None


@pytest.mark.parametrize(
    "path",
    [b"/predictions/a", b"/invocations", b"/models/a/invoke", b"/v1/models/a:predict"],
)
def test_a_model_that_has_never_loaded_gets_requests_at_each_path(server, path):
    found = find(server(a=UNPACKED), path, b"POST")

    assert isinstance(found, PredictionCall)
    assert found.model == "a"


def test_a_model_of_servekit_that_has_not_loaded_is_left_alone(server):
    assert find(server(a=LOADED, b=NATIVE), b"/predictions/b", b"POST") is None


def test_a_server_without_models_says_that_one_is_not_there(server):
    assert isinstance(find(server(management=":8081"), b"/predictions/a", b"POST"), ModelNotFound)
    assert find(server(), b"/predictions/a", b"POST") is None


def root_options(server):
    app = Flask("root")
    app.add_url_rule("/", "root", lambda: "servekit")
    app.register_blueprint(create_root(server))
    client = app.test_client()
    assert client.get("/").text == "servekit"
    return client.options("/")


@pytest.mark.parametrize(("management", "states"), LIKE_TORCHSERVE)
def test_options_of_the_root_is_the_description(server, management, states):
    found = server(management=management, **states)

    assert root_options(found).data == find(found, b"/api-description").body


@pytest.mark.parametrize(("management", "states"), UNLIKE)
def test_options_of_the_root_of_other_servers_is_theirs(server, management, states):
    response = root_options(server(management=management, **states))

    assert response.data == b""
    assert "GET" in response.headers["Allow"]
