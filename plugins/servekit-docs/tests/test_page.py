# SPDX-License-Identifier: Apache-2.0
"""``/docs`` is complete without the rest of the internet."""

import re

import pytest
from flask import Flask
from servekit_docs.page import create_blueprint

LINK = re.compile(r'(?:href|src)="([^"]+)"')


@pytest.fixture(scope="module")
def client():
    app = Flask("test", static_folder=None)
    app.register_blueprint(create_blueprint())
    return app.test_client()


def test_everything_the_page_links_to_is_served_from_here(client):
    links = set(LINK.findall(client.get("/docs").text)) - {"openapi.json"}

    assert "docs/swagger-ui-bundle.js" in links
    assert {client.get(f"/{link}").status_code for link in links} == {200}


def test_the_page_runs_nothing_but_scripts_of_this_server(client):
    page = client.get("/docs")

    assert "script-src 'self';" in page.headers["Content-Security-Policy"]
    assert "<script>" not in page.text
    assert " onload=" not in page.text


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("docs.js", "text/javascript"), ("swagger-ui.css", "text/css")],
)
def test_files_have_their_media_type_whatever_the_machine_thinks(client, name, media_type):
    assert client.get(f"/docs/{name}").mimetype == media_type


def test_a_browser_that_has_a_file_is_not_sent_it_again(client):
    tag = client.get("/docs/docs.js").headers["ETag"]

    again = client.get("/docs/docs.js", headers={"If-None-Match": tag})

    assert (again.status_code, again.data) == (304, b"")


def test_the_page_with_a_slash_leads_to_the_page(client):
    answer = client.get("/docs/")

    assert (answer.status_code, answer.headers["Location"]) == (308, "../docs")


@pytest.mark.parametrize("name", ["../app.py", "..%2Fapp.py", "docs.html", "LICENSE", "x/docs.js"])
def test_only_the_files_of_the_page_are_served(client, name):
    assert client.get(f"/docs/{name}").status_code == 404
