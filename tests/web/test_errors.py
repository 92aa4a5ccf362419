# SPDX-License-Identifier: Apache-2.0
"""Every error is problem details, with the status of its class and the request's id."""

import logging

import pytest
from flask import abort

from servekit.errors import InputError, NotReady, OutOfMemory
from servekit.ipc.table import Interface
from servekit.web import RouteMetrics, create_app

from .fakes import model_row

ID = {"servekit.request_id": "r-7"}


@pytest.mark.parametrize(
    ("method", "path", "status", "detail"),
    [
        ("GET", "/nowhere", 404, "no route has the path '/nowhere'"),
        ("GET", "/ping/", 404, "no route has the path '/ping/'"),
        ("POST", "/nope/predict", 404, "no model is called 'nope'"),
        ("GET", "/nope/predict", 404, "no model is called 'nope'"),
        ("OPTIONS", "/nope/predict", 404, "no model is called 'nope'"),
        ("GET", "/nope/ping", 404, "no model is called 'nope'"),
        ("POST", "/Digits/predict", 404, "no model is called 'Digits'"),
        ("POST", "/%1B[2J%0D%0A/predict", 404, r"no model is called '\x1b[2J\r\n'"),
        ("POST", "/caf%C3%A9/predict", 404, r"no model is called 'caf\xe9'"),
        ("POST", f"/{'x' * 99}/predict", 404, f"no model is called '{'x' * 64}...'"),
        ("GET", "/digits/predict", 405, "allowed here: POST"),
        ("BREW", "/digits/predict", 405, "allowed here: POST"),
        ("POST", "/ping", 405, "allowed here: GET, HEAD, OPTIONS"),
        ("BREW", "/ping", 405, "allowed here: GET, HEAD, OPTIONS"),
    ],
)
def test_a_request_that_leads_nowhere_is_told_why(client, method, path, status, detail):
    answer = client.open(path, method=method, environ_overrides=ID)

    assert answer.status_code == status
    assert answer.content_type == "application/problem+json"
    assert answer.json["detail"] == detail
    assert (answer.json["status"], answer.json["request_id"]) == (status, "r-7")


@pytest.mark.parametrize(
    ("path", "allowed"), [("/digits/predict", "POST"), ("/ping", "GET, HEAD, OPTIONS")]
)
def test_a_wrong_method_is_told_the_right_ones(client, path, allowed):
    assert client.delete(path).headers["Allow"] == allowed


@pytest.mark.parametrize(
    ("path", "allowed"), [("/digits/predict", {"POST"}), ("/ping", {"GET", "HEAD", "OPTIONS"})]
)
def test_options_names_the_methods_of_a_route(client, path, allowed):
    answer = client.options(path)

    assert answer.status_code in (200, 204)
    assert set(answer.headers["Allow"].split(", ")) == allowed
    assert (answer.data, answer.headers.get("Content-Type")) == (b"", None)


@pytest.mark.parametrize("path", ["/", "/ping", "/nowhere", "/digits/predict"])
def test_head_answers_like_get_without_a_body(client, path):
    head, get = client.head(path), client.get(path)

    assert head.data == b""
    assert (head.status_code, head.content_length) == (get.status_code, get.content_length)


@pytest.mark.parametrize("path", ["//ping", "//digits/predict", "//evil.example/ping"])
def test_a_path_that_begins_with_two_slashes_is_no_route(client, path):
    answer = client.post("/", environ_overrides={"PATH_INFO": path})

    assert answer.status_code == 404


def test_a_prediction_that_arrives_before_its_model_may_be_tried_again(client):
    answer = client.post("/digits/predict")

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_paths_below_a_model_are_known_once_it_has_loaded(server):
    server.table.models = [model_row("known", Interface()), model_row("new")]
    client = server.client()
    answers = [client.post(f"/{name}/embed") for name in ("known", "new", "none")]

    assert [each.status_code for each in answers] == [404, 503, 404]
    assert answers[1].headers["Retry-After"] == "1"
    assert server.woken == ["new"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("/etc/secret"), 500),
        (NotReady("/etc/secret"), 503),
        (OutOfMemory("/etc/secret"), 507),
    ],
)
def test_the_text_of_a_fault_of_the_server_never_leaves_it(server, error, status):
    answer = _raising(server, error).get("/raise")

    assert answer.status_code == status
    assert b"secret" not in answer.data


def test_the_traceback_of_an_unexpected_error_is_logged_under_the_request_id(server, caplog):
    with caplog.at_level(logging.ERROR):
        _raising(server, RuntimeError("the disk is gone")).get("/raise", environ_overrides=ID)

    assert "r-7" in caplog.text
    assert "the disk is gone" in caplog.text


def test_a_refused_input_names_its_fields(server):
    wrong = [{"field": "x", "message": "missing"}]

    answer = _raising(server, InputError("x: missing", wrong)).get("/raise")

    assert (answer.status_code, answer.json["errors"]) == (422, wrong)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 406, 408, 413, 415, 429, 500, 503])
def test_what_a_view_aborts_with_is_problem_details_of_the_same_status(server, status):
    app = create_app(server, RouteMetrics(server))
    app.add_url_rule("/abort", "abort", lambda: abort(status))

    answer = app.test_client().get("/abort")

    assert (answer.status_code, answer.json["status"]) == (status, status)


@pytest.mark.parametrize("path", ["/console", "/?__debugger__=yes&cmd=resource&f=debugger.js"])
def test_there_is_no_debugger(client, path):
    assert b"DOCTYPE" not in client.get(path).data


def test_the_app_keeps_no_sessions_and_allows_no_other_origin(client):
    answer = client.get("/ping", headers={"Origin": "https://evil.example"})

    assert not {"Set-Cookie", "Access-Control-Allow-Origin"} & set(answer.headers.keys())


def _raising(server, error):
    app = create_app(server, RouteMetrics(server))

    def fail():
        raise error

    app.add_url_rule("/raise", "fail", fail)
    return app.test_client()
