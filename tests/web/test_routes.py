# SPDX-License-Identifier: Apache-2.0
"""Routes of plugins: pages on both listeners, with their part of ``/openapi.json``."""

import json

import pytest
from flask import Blueprint, Response, jsonify
from openapi_spec_validator import OpenAPIV31SpecValidator
from prometheus_client.parser import text_string_to_metric_families as families

from servekit.errors import NotReady, PluginError, Unauthorized
from servekit.extension import Routes
from servekit.web import RouteMetrics, create_app, create_management

from .fakes import FakeServer, model_row

NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
OPERATION = {
    "operationId": "greet",
    "parameters": [NAME],
    "responses": {"200": {"description": "A greeting"}},
}
FRAGMENT = {"paths": {"/greetings/{name}": {"get": OPERATION}}, "tags": [{"name": "greetings"}]}


def blueprint(rule="/greetings/<name>", name="greetings"):
    pages = Blueprint(name, __name__)

    @pages.get(rule)
    def greet(name="you"):
        if name == "nobody":
            raise NotReady("nobody is here")
        if name == "bug":
            raise RuntimeError("secret")
        return jsonify(hello=name)

    return pages


def page(**more):
    return Routes(blueprint=blueprint(), links={"greetings": "/greetings/you"}, **more)


def test_a_page_of_a_plugin_is_served_linked_and_hardened(server):
    client = server.client(page())
    response = client.get("/greetings/Ada")

    assert (response.status_code, response.json) == (200, {"hello": "Ada"})
    assert response.headers["Cache-Control"] == "no-store"
    assert client.get("/").json["links"]["greetings"] == "/greetings/you"


@pytest.mark.parametrize(("name", "status"), [("nobody", 503), ("bug", 500)])
def test_errors_of_a_page_are_problems_that_tell_no_secret(server, name, status, caplog):
    response = server.client(page()).get(f"/greetings/{name}")

    assert (response.status_code, response.mimetype) == (status, "application/problem+json")
    assert b"secret" not in response.data
    assert ("secret" in caplog.text) == (name == "bug")


@pytest.mark.parametrize(
    "rule", ["/ping", "/metrics", "/", "/<model>/ping", "/openapi.json", "/greetings/<name>"]
)
def test_a_path_that_exists_is_refused(server, rule):
    with pytest.raises(PluginError, match=f"routes other: {rule} exists already"):
        server.client(page(), Routes(blueprint=blueprint(rule, "other")))


def test_a_name_that_exists_is_refused(server):
    with pytest.raises(PluginError, match=r"routes greetings: .*already registered"):
        server.client(page(), Routes(blueprint=blueprint("/other")))


def test_the_fragment_of_a_plugin_is_part_of_the_description(server):
    document = json.loads(server.client(page(openapi=FRAGMENT)).get("/openapi.json").data)

    OpenAPIV31SpecValidator(document).validate()
    assert document["paths"]["/greetings/{name}"]["get"] == OPERATION
    assert [tag["name"] for tag in document["tags"]] == ["digits", "echo", "server", "greetings"]


def test_a_fragment_may_follow_from_the_document(server):
    fragment = lambda document: {"x-models": sorted(document["paths"])[:1]}  # noqa: E731
    document = json.loads(server.client(Routes(openapi=fragment)).get("/openapi.json").data)

    assert document["x-models"] == ["/"]


@pytest.mark.parametrize(
    ("fragment", "place"),
    [
        ({"info": {"title": "mine"}}, "/info/title"),
        ({"paths": {"/ping": {"get": OPERATION}}}, "/paths//ping/get/operationId"),
        ({"paths": ["/ping"]}, "/paths"),
    ],
)
def test_a_fragment_that_contradicts_the_document_is_refused(server, fragment, place):
    with pytest.raises(PluginError, match=f"openapi: {place} is defined twice"):
        server.client(Routes(openapi=fragment))


def test_a_model_that_takes_a_path_of_a_plugin_leaves_the_plugin_out_of_the_document(caplog):
    post = {"paths": {"/late/predict": {"post": OPERATION}}}
    server = FakeServer()
    client = server.client(Routes(openapi=post), page(openapi=FRAGMENT))
    assert client.get("/openapi.json").json["paths"].keys() >= {"/late/predict"}
    server.table = FakeServer(model_row("late")).table
    paths = client.get("/openapi.json").json["paths"]

    assert paths["/late/predict"]["post"]["operationId"] != "greet"
    assert "/greetings/{name}" in paths
    assert "/openapi.json leaves out a plugin: openapi: /paths//late/predict/post" in caplog.text


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param(BROWSER, 303, id="a browser"),
        pytest.param({}, 200, id="a program"),
        pytest.param({"Accept": "*/*"}, 200, id="curl"),
        pytest.param({"Accept": "application/json, text/html;q=0.9"}, 200, id="JSON preferred"),
    ],
)
def test_a_browser_is_sent_to_the_home_of_a_plugin(server, headers, status):
    response = server.client(page(home="/greetings/you")).get("/", headers=headers)

    assert (response.status_code, response.headers["Vary"]) == (status, "Accept")
    assert response.headers.get("Location") == ("/greetings/you" if status == 303 else None)


def test_a_page_that_streams_is_not_collected_first(server):
    made = []

    def pieces():
        for number in range(3):
            made.append(number)
            yield b"x"

    pages = Blueprint("endless", __name__)
    pages.add_url_rule("/endless", "endless", lambda: Response(pieces(), mimetype="text/plain"))
    response = server.client(Routes(blueprint=pages)).get("/endless", buffered=False)

    assert (response.is_streamed, made) == (True, [0])  # the test client asks for one
    assert response.headers["Cache-Control"] == "no-store"


def test_there_is_one_home(server):
    other = Routes(blueprint=blueprint("/other", "other"), home="/other")
    with pytest.raises(PluginError, match="cannot be sent to both /greetings/you and /other"):
        server.client(page(home="/greetings/you"), other)


def test_pages_of_plugins_are_known_to_all_of_them(server):
    client = server.client(page(pages={"Greetings": "/greetings/you"}))

    assert client.application.extensions["servekit.pages"] == {"Greetings": "/greetings/you"}


@pytest.mark.parametrize(
    "more", [{"openapi": FRAGMENT}, {"protected": {"/x": str}}, {"managed": ["/x"]}, {"home": "/x"}]
)
def test_routes_for_management_have_no_part_in_what_is_public(more):
    with pytest.raises(PluginError, match="is for the public listener"):
        page(listener="management", **more)


def test_pages_of_both_listeners_are_measured_and_shown_together(server):
    metrics = RouteMetrics(server)
    public = create_app(server, metrics, [page()]).test_client()
    management = create_management(server, metrics, [page(listener="management")]).test_client()
    public.get("/greetings/Ada")
    management.get("/greetings/Ada")
    management.get("/greetings/Ada")
    management.get("/ping")
    counted = {
        (sample.labels["listener"], sample.labels["rule"]): sample.value
        for family in families(public.get("/metrics").text)
        for sample in family.samples
        if sample.name == "flask_http_request_duration_seconds_count"
    }

    assert management.get("/").json["links"]["greetings"] == "/greetings/you"
    assert counted == {
        ("public", "/greetings/<name>"): 1.0,
        ("management", "/greetings/<name>"): 2.0,
        ("management", "/ping"): 1.0,
    }


def test_managed_paths_need_the_token_for_management(server):
    asked = []

    def judge(given):
        asked.append(given)
        return None if given == b"Bearer manager" else Unauthorized("a bearer token is needed")

    server.judge_manager = judge
    client = server.client(page(managed=["/greetings/"]))
    token = {"Authorization": "Bearer manager"}

    assert client.get("/greetings/Ada").status_code == 401
    assert client.get("/greetings/Ada", headers=token).status_code == 200
    assert client.get("/ping").status_code == 200
    assert asked == [None, b"Bearer manager"]
