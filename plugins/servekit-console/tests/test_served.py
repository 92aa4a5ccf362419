# SPDX-License-Identifier: Apache-2.0
"""A real server: ``/`` leads browsers to the console, and its pages follow what happens."""

import http.client
import json
from contextlib import closing, contextmanager

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
WAIT_S = 180.0
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
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=WAIT_S)
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


@contextmanager
def stream_of(served):
    """Yield the open stream of a page."""
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=WAIT_S)
    connection.request("GET", "/console/live")
    with closing(connection), closing(connection.getresponse()) as stream:
        yield stream


def test_pages_follow_the_server_live(serve_model, model):
    served, found = serve_model(model), {}
    with stream_of(served) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        while "rates" not in found:
            served.predict([1])
            line = stream.readline().decode()
            assert line, "the stream has ended"
            if line.startswith("event: "):
                found[line[7:].strip()] = json.loads(stream.readline()[6:])

    assert list(found["rates"]["models"]) == ["echo"]
    assert len(found["rates"]["total"]) == 7


def test_a_server_with_an_open_page_stops_at_once(serve_model, model):
    served = serve_model(model, grace=600)
    with stream_of(served) as stream:
        status = served.stop()  # it does not wait as long as the grace period
        rest = stream.read()

    assert status == 0
    assert rest.startswith(b"retry:")


def test_the_twin_of_the_overview_shows_the_model(serve_model, model):
    document = json.loads(get(serve_model(model), "/console/overview.json")[1])

    assert [(each["name"], each["state"]) for each in document["models"]] == [("echo", "ready")]
    assert document["total"]["requests_per_s"] == 0
