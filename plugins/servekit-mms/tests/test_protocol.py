# SPDX-License-Identifier: Apache-2.0
"""The front-end half alone: which requests it takes while models load, fail to load or sleep."""

import json
from types import SimpleNamespace

import pytest
from servekit_mms.protocol import MMSProtocol

from servekit.extension import HttpResponse, ModelView, PredictionCall, RequestHead

from .conftest import signature, write_handler, write_legacy

LOADED, OTHER = "mms", "chat"
LEGACY, HANDLER, NATIVE, PREPARED = "archive of 0.x", "of 1.x", "of servekit", "not unpacked yet"
BROKEN = "archive of 0.x with a mistake"
#: what the worker of a service class with one input says
INTERFACE = {
    "input_schema": {"type": "object", "properties": {"data": {"description": "a tensor"}}},
    "schema_definitions": {},
    "output_schema": {},
    "consumes": ["application/json", "multipart/form-data"],
}


@pytest.fixture
def protocol(tmp_path):
    """Return a function that makes the protocol of a server of models, each in a state."""
    broken = write_legacy(tmp_path / "broken")
    (broken / "signature.json").unlink()
    directories = {
        LEGACY: write_legacy(
            tmp_path / "legacy", signed=signature("data", input_type="image/jpeg")
        ),
        HANDLER: write_handler(tmp_path / "handler", ""),
        NATIVE: tmp_path,
        BROKEN: broken,
    }

    def make(**states):
        models = {
            name: ModelView(
                name=name,
                version="1.0",
                interface=(
                    SimpleNamespace(task=state, **INTERFACE) if state in (LOADED, OTHER) else None
                ),
                directory=directories.get(state),
            )
            for name, state in states.items()
        }
        settings = SimpleNamespace(tls_certificate=None)
        server = SimpleNamespace(models=models, settings=settings, needs_token=False)
        return MMSProtocol(server)

    return make


def find(protocol, path, method=b"POST", query=b"", media_type=b""):
    headers = {b"content-type": media_type} if media_type else {}
    return protocol.find(RequestHead(method, path, query, headers))


@pytest.mark.parametrize(
    "states", [{"a": LOADED, "b": LEGACY}, {"a": LOADED, "b": HANDLER}, {"a": LEGACY, "b": HANDLER}]
)
def test_a_server_of_archives_describes_itself_as_mms_does(protocol, states):
    found = find(protocol(**states), b"/api-description", b"GET")

    paths = json.loads(found.body)["description"]["paths"]
    assert {"/ping", "/a/predict", "/b/predict"} <= paths.keys()


@pytest.mark.parametrize("state", [NATIVE, PREPARED, OTHER, BROKEN])
def test_a_model_that_may_be_of_others_leaves_the_description_to_servekit(protocol, state):
    assert find(protocol(a=LOADED, b=state), b"/api-description", b"GET") is None
    assert find(protocol(b=state), b"/predictions/b") is None


def test_a_server_without_models_is_left_alone(protocol):
    assert find(protocol(), b"/api-description", b"GET") is None


def test_the_signature_describes_a_model_that_has_not_been_loaded(protocol):
    found = find(protocol(a=LEGACY), b"/api-description", b"GET")

    post = json.loads(found.body)["description"]["paths"]["/a/predict"]["post"]
    assert [(each["name"], each["type"]) for each in post["parameters"]] == [("data", "file")]


@pytest.mark.parametrize("state", [LOADED, LEGACY, HANDLER])
@pytest.mark.parametrize("path", [b"/predictions/a", b"/models/a/invoke", b"/invocations"])
def test_models_are_reached_before_they_have_loaded(protocol, state, path):
    found = find(protocol(a=state, b=NATIVE), path, media_type=b"multipart/form-data; boundary=x")

    assert found == PredictionCall(model="a", is_native=True)


@pytest.mark.parametrize("state", [LOADED, LEGACY])
@pytest.mark.parametrize("media_type", [b"", b"image/jpeg"])
def test_a_body_is_the_only_input_of_a_signature(protocol, state, media_type):
    found = find(protocol(a=state), b"/predictions/a", media_type=media_type)

    assert found == PredictionCall(model="a")


def test_a_handler_takes_any_body_before_it_has_loaded(protocol):
    found = find(protocol(a=HANDLER), b"/predictions/a", media_type=b"image/jpeg")

    assert found == PredictionCall(model="a", is_native=True)


def test_invocations_ask_for_a_name_before_both_models_have_loaded(protocol):
    found = protocol(a=LOADED, b=LEGACY)

    assert "one of a, b" in find(found, b"/invocations").detail
    assert find(found, b"/invocations", query=b"model_name=b", media_type=b"application/json") == (
        PredictionCall(model="b", is_native=True)
    )


def test_other_methods_are_refused_before_a_model_has_loaded(protocol):
    found = find(protocol(a=LEGACY), b"/predictions/a", b"GET")

    assert not isinstance(found, HttpResponse)
    assert found.status == 405
