# SPDX-License-Identifier: Apache-2.0
"""The root route, and what holds for all routes."""

import servekit


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
