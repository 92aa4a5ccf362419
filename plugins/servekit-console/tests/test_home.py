# SPDX-License-Identifier: Apache-2.0
"""``/`` leads browsers to the console and programs to JSON, in a real server."""

import http.client
import json

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("echo")
    (directory / "model.toml").write_text('name = "echo"\nservice = "service:Echo"\n')
    (directory / "service.py").write_text(
        "from servekit import Service\n\n\n"
        "class Echo(Service):\n    def predict(self, batch):\n        return batch\n"
    )
    return directory


def get(served, path, headers=None):
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_a_browser_is_sent_to_the_console_and_a_program_gets_json(serve_model, model):
    served = serve_model(model)
    browser, _ = get(served, "/", HTML)
    program, body = get(served, "/")

    assert (browser.status, browser.headers["Location"]) == (303, "/console/")
    assert json.loads(body)["links"]["console"] == "/console/"
    assert program.headers["Vary"] == "Accept"
    assert get(served, "/console/", HTML)[0].status == 200


def test_the_console_can_be_switched_off(serve_model, model):
    served = serve_model(model, plugin=("console.enabled=false",))

    assert get(served, "/", HTML)[0].status == 200
    assert get(served, "/console/", HTML)[0].status == 404
