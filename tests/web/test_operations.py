# SPDX-License-Identifier: Apache-2.0
"""What operators change: the requests, the operations they become, and the answers."""

import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from servekit.errors import InputError
from servekit.ipc.operations import (
    DONE,
    FAILED,
    Load,
    OperationStep,
    ReloadModels,
    RollBack,
    Scale,
    SetTraffic,
    Swap,
    Unload,
)
from servekit.web import RouteMetrics, create_management
from servekit.web.operations import operate

from .fakes import FakeOperated, ends, model_row


class Managed(FakeOperated):
    def crashes(self):
        return []


@pytest.fixture
def managed():
    return Managed(model_row("digits"))


@pytest.fixture
def app(managed):
    return create_management(managed, RouteMetrics(managed))


@pytest.fixture
def operator(app):
    return app.test_client()


REQUESTS = {
    "load": (
        *("POST", "/models", {"source": "/a.mar", "settings": {"replicas": 2}}),
        Load(source="/a.mar", settings={"replicas": 2}),
    ),
    "load a URL": (
        *("POST", "/models", {"source": "s3://a/b.mar", "model": "b"}),
        Load(source="s3://a/b.mar", model="b"),
    ),
    "scale": ("PUT", "/models/digits", {"replicas": 4}, Scale(model="digits", replicas=4)),
    "scale a stage": (
        *("PUT", "/models/digits", {"replicas": {"min": 1, "max": 4}, "stage": "decode"}),
        Scale(model="digits", replicas={"min": 1, "max": 4}, stage="decode"),
    ),
    "traffic": (
        *("PUT", "/models/digits", {"weights": {"1.0": 90, "canary": 10}, "sticky": "X-User"}),
        SetTraffic(model="digits", weights={"1.0": 90, "canary": 10}, sticky="X-User"),
    ),
    "unload": ("DELETE", "/models/digits", None, Unload(model="digits")),
    "unload a version": (
        *("DELETE", "/models/digits/versions/2.0", None),
        Unload(model="digits", version="2.0"),
    ),
    "swap": (
        *("POST", "/models/digits/swap", {"source": "/b.mar", "shift": [10, 50], "watch_s": 1}),
        Swap(model="digits", source="/b.mar", shift=[10, 50], watch_s=1.0),
    ),
    "roll back": ("POST", "/models/digits/rollback", None, RollBack(model="digits")),
    "reload": ("POST", "/models/digits/reload", {}, ReloadModels(model="digits")),
}


@pytest.mark.parametrize(
    ("method", "path", "body", "operation"), REQUESTS.values(), ids=REQUESTS.keys()
)
def test_a_request_becomes_an_operation(operator, managed, method, path, body, operation):
    answer = operator.open(path, method=method, json=body)

    assert managed.operations == [operation]
    assert answer.status_code == 202
    assert answer.headers["Location"] == f"/operations/{answer.json['id']}"
    assert answer.json == operator.get(answer.headers["Location"]).json
    assert operator.get("/operations").json == {"operations": [answer.json]}


REFUSED = {
    "no source": ("POST", "/models", {}, "source", "missing"),
    "relative": ("POST", "/models", {"source": "a.mar"}, "source", "neither an absolute path nor"),
    "unknown": ("POST", "/models", {"source": "/a", "sauce": 1}, "sauce", "unknown field"),
    "setting": (
        *("POST", "/models", {"source": "/a", "settings": {"batching": {"max_batch_size": "x"}}}),
        *("settings.batching.max_batch_size", "'x' is not a whole number"),
    ),
    "unknown setting": (
        *("POST", "/models", {"source": "/a", "settings": {"replcas": 1}}),
        *("settings", "unknown key 'replcas', did you mean 'replicas'?"),
    ),
    "path as a setting": (
        *("POST", "/models", {"source": "/a", "settings": {"path": "/b"}}),
        *("settings.path", "give the path as source"),
    ),
    "not a list": ("POST", "/models", [], "", "expected an object"),
    "replicas": ("PUT", "/models/digits", {"replicas": -1}, "replicas", "expected int >= 0"),
    "both": ("PUT", "/models/digits", {"replicas": 1, "sticky": "X"}, "sticky", "unknown field"),
    "name": ("PUT", "/models/digits", {"model": "a", "replicas": 1}, "model", "unknown field"),
    "tag": ("POST", "/models/digits/rollback", {"type": "load"}, "type", "unknown field"),
    "share": (
        *("POST", "/models/digits/swap", {"version": "2", "shift": [5, 101]}),
        *("shift[1]", "expected int <= 100"),
    ),
    "nothing to swap": ("POST", "/models/digits/swap", None, "source", "give a source, or the"),
    "too much to swap": (
        *("POST", "/models/digits/swap", {"source": "/a", "version": "2"}),
        *("source", "give a source, or the"),
    ),
    "body of a deletion": ("DELETE", "/models/digits", {"force": True}, "force", "unknown field"),
}


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "message"), REFUSED.values(), ids=REFUSED.keys()
)
def test_a_body_that_is_wrong_names_the_field(
    operator, managed, method, path, body, field, message
):
    answer = operator.open(path, method=method, json=body)

    assert (answer.status_code, answer.content_type) == (422, "application/problem+json")
    (error,) = answer.json["errors"]
    assert error["field"] == field
    assert error["message"].startswith(message)
    assert managed.operations == []


@pytest.mark.parametrize(
    ("method", "path", "more", "status"),
    [
        ("PUT", "/models/nope", {"json": {"replicas": 1}}, 404),
        ("DELETE", "/models/nope", {}, 404),
        ("POST", "/models/nope/swap", {"json": {"source": "/a"}}, 404),
        ("POST", "/models/nope/rollback", {}, 404),
        ("GET", "/operations/nope", {}, 404),
        ("POST", "/models", {"data": "{", "content_type": "application/json"}, 400),
        ("POST", "/models", {"data": "source=/a"}, 415),
        ("DELETE", "/models/digits?wait=soon", {}, 400),
        ("DELETE", "/models/digits?wait=-1", {}, 400),
        ("DELETE", "/models/digits?wait=nan", {}, 400),
    ],
)
def test_other_mistakes_begin_nothing(operator, managed, method, path, more, status):
    assert operator.open(path, method=method, **more).status_code == status
    assert managed.operations == []


def test_waiting_ends_with_the_operation(operator, managed):
    load, prepare = OperationStep("load"), OperationStep("prepare", DONE)
    managed.turns = [
        lambda row: row.steps.append(prepare),
        lambda row: row.steps.append(load),
        ends(DONE, version="2.0"),
    ]
    answer = operator.post("/models/digits/swap?wait=60", json={"source": "/b.mar"})

    assert (answer.status_code, answer.json["state"], answer.json["version"]) == (200, DONE, "2.0")
    assert [step["name"] for step in answer.json["steps"]] == ["prepare", "load"]
    assert max(managed.waits) <= 1.0


def test_a_failed_operation_is_a_problem_with_its_steps(operator, managed):
    failed = ends(FAILED, error="digits/2.0: example 1 is wrong", status=409)
    managed.turns = [lambda row: row.steps.append(OperationStep("load", FAILED)), failed]
    answer = operator.post("/models/digits/swap?wait=60", json={"source": "/b.mar"})

    assert (answer.status_code, answer.content_type) == (409, "application/problem+json")
    assert answer.json["title"] == "Operation failed"
    assert answer.json["detail"] == "digits/2.0: example 1 is wrong"
    assert answer.json["operation"]["steps"][0]["name"] == "load"
    id_ = answer.json["operation"]["id"]
    assert operator.get(f"/operations/{id_}").json["state"] == FAILED


def test_a_failure_without_a_status_is_ours(operator, managed):
    managed.turns = [ends(FAILED, error="no idea")]

    assert operator.delete("/models/digits?wait=60").status_code == 500


def test_waiting_for_longer_than_the_operation_takes_costs_nothing(operator, managed):
    id_ = operator.delete("/models/digits").json["id"]
    managed.turns = [ends(DONE)]

    assert operator.get(f"/operations/{id_}?wait=60").json["state"] == DONE
    assert operator.get(f"/operations/{id_}?wait=60").json["state"] == DONE
    assert len(managed.waits) == 1


@pytest.mark.parametrize("wait", ["0.01", "60"])
def test_the_wait_ends_when_its_time_is_over_or_the_front_end_drains(operator, managed, wait):
    def drain(_row):
        managed.is_draining = True

    managed.turns = [drain] if wait == "60" else []
    answer = operator.delete(f"/models/digits?wait={wait}")

    assert (answer.status_code, answer.json["state"]) == (202, "running")
    assert operator.get(answer.headers["Location"] + "?wait=0.01").json["state"] == "running"


def test_nothing_begins_while_the_server_shuts_down(operator, managed):
    managed.table.is_draining = True

    assert operator.delete("/models/digits").status_code == 503
    assert managed.operations == []


def test_an_operation_that_is_not_shown_yet_has_been_asked_for(operator, managed, monkeypatch):
    monkeypatch.setattr("servekit.web.operations.APPEARS_S", 0.01)
    monkeypatch.setattr(managed, "begin_operation", lambda id_, operation: None)
    answer = operator.delete("/models/digits")

    assert (answer.status_code, answer.json["kind"], answer.json["model"]) == (
        202, "unload", "digits",
    )  # fmt: skip


# ---------------------------------------------------------------- the description


def test_the_description_has_every_route(app, operator):
    document = operator.get("/openapi.json").json
    described = {
        (method.upper(), re.sub(r"{\w+}", "{}", path))
        for path, methods in document["paths"].items()
        for method in methods
    }
    routed = {
        (method, re.sub(r"<(?:int:)?\w+>", "{}", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }

    assert described == routed


def test_the_description_has_the_bodies_without_what_the_path_says(operator):
    schemas = operator.get("/openapi.json").json["components"]["schemas"]

    assert "model" in schemas["Load"]["properties"]
    assert schemas["Swap"]["required"] == []
    assert not {"type", "model"} & schemas["Swap"]["properties"].keys()
    assert schemas["Swap"]["properties"]["shift"]["items"] == {
        "type": "integer", "minimum": 0, "maximum": 100,
    }  # fmt: skip


def test_the_description_is_valid(operator):
    OpenAPIV31SpecValidator(operator.get("/openapi.json").json).validate()


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Swap(model="digits", source="/b.mar", step_s=-1), "step_s: "),
        (Swap(model="digits", source="/b.mar", max_error_rate=2.0), "max_error_rate: "),
        (Scale(model="digits", replicas=2000), "replicas"),
        (Scale(model="digits", replicas="two"), "replicas"),
        (SetTraffic(model="digits", weights={"1.0": -1}), "weights"),
        (SetTraffic(model="digits", mirror_percent=101), "mirror_percent: "),
        (Load(source=None), "source: "),
        (Load(source="/a.mar", settings={"options": {"n": 2**70}}), "ints"),
        (Load(source="/a.mar", settings={"options": {"n": object()}}), "object"),
        (Unload(model=b"\xff"), "model"),
    ],
)
def test_an_operation_of_a_plugin_that_no_supervisor_can_read_is_refused(
    managed, app, operation, reason
):
    with app.test_request_context(), pytest.raises(InputError, match=reason):
        operate(managed, operation, 0.0)
    assert not managed.operations


def test_a_number_that_no_message_holds_is_refused(managed, operator):
    settings = {"options": {"n": 2**70}}
    response = operator.post("/models", json={"source": "/a.mar", "settings": settings})

    assert response.status_code == 422, response.text
    assert not managed.operations
