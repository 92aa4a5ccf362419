# SPDX-License-Identifier: Apache-2.0
"""The root route, and what holds for all routes."""

import pytest

import servekit
from servekit.web import may_read_body

from .test_routes import page


def test_the_root_says_what_this_is_and_every_link_it_gives_works(client):
    root = client.get("/").json

    assert (root["name"], root["version"]) == ("servekit", servekit.__version__)
    assert root["models"] == {"digits": "/digits/predict", "echo": "/echo/predict"}
    assert [client.get(link).status_code for link in root["links"].values()] == [200] * len(
        root["links"]
    )


def test_json_keeps_its_order_and_holds_no_spaces(client):
    assert client.get("/").data.startswith(b'{"name":"servekit","version":"')


def test_browsers_are_told_not_to_guess_types(client):
    assert client.get("/").headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("method", "path", "is_read"),
    [
        ("POST", "/greetings", True),  # of a plugin
        ("POST", "/greetings/you", False),
        ("GET", "/greetings/you", True),  # a view may do as it likes
        ("POST", "/none", False),
        ("POST", "/ping", False),
        ("POST", "/nobody/predict", False),
        ("POST", "/digits/versions/9/predict", False),
        ("DELETE", "/digits/predict", False),
    ],
)
def test_bodies_are_read_wherever_a_view_may_do_so(server, method, path, is_read):
    routes = page()
    routes.blueprint.add_url_rule("/greetings", "take", lambda: "", methods=["POST"])

    assert may_read_body(server.client(routes).application, method, path) is is_read
