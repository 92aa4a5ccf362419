# SPDX-License-Identifier: Apache-2.0
"""What the pages of the playground are made of, around a server that does not run."""

import gzip
import re
from types import SimpleNamespace
from urllib.parse import urljoin

import pytest

from servekit.errors import ModelNotFound, RouteNotFound

from .conftest import StandIn, client_of

IMPORT = re.compile(r'from "(\./[^"]+)"')
LINK = re.compile(r'(?:href|src)="(/console/static/[^"]+)"')
CALL = {"server": "http://h:1", "path": "/digits/predict", "value": {"x": 1}}


class StandInWithModel(StandIn):
    """It has the model ``digits``."""

    needs_token = False

    def __init__(self, run_directory, said=None, **bind) -> None:
        super().__init__(run_directory, **bind)
        self.models = {"digits": SimpleNamespace(directory=run_directory)}
        example = {"input_file": "a/three.png", "content_type": "image/png"}
        path = {"path": "/digits/predict", "examples": [example, {"input_file": None}]}
        self.known = {
            "name": "digits", "version": "1", "versions": ["1"], "description": "Reads <digits>.",
            "playground": said or {}, "paths": [path],
        }  # fmt: skip

    def describe_model(self, model):
        if model != "digits":
            raise ModelNotFound("no model is called that")
        return self.known

    def write_snippets(self, model, request):
        if request.path != "/digits/predict":
            raise RouteNotFound("not there")
        return {"curl": f"curl {request.server}{request.path}", "model": model}


@pytest.fixture
def client(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/three.png").write_bytes(b"\x89PNG")
    (tmp_path / "secret.txt").write_text("secret")
    return client_of(StandInWithModel(tmp_path))


def test_a_page_names_its_model_and_loads_what_is_there(client):
    page = client.get("/console/playground/digits")

    assert "<h1>digits</h1>" in page.text
    assert "Reads &lt;digits&gt;." in page.text
    assert {client.get(link).status_code for link in LINK.findall(page.text)} == {200}


def test_all_that_a_page_loads_is_small(client):
    wanted, sizes = LINK.findall(client.get("/console/playground/digits").text), {}
    while wanted:
        link = wanted.pop()
        content = client.get(link).data
        sizes[link] = len(gzip.compress(content, 9))
        imported = [urljoin(link, name) for name in IMPORT.findall(content.decode())]
        wanted += [each for each in imported if each not in sizes]

    assert len(sizes) > 8
    assert sum(sizes.values()) < 60_000


def test_an_author_chooses_title_and_description(tmp_path):
    said = {"title": "Digits by hand", "description": "Draw one."}
    page = client_of(StandInWithModel(tmp_path, said)).get("/console/playground/digits")

    assert "<h1>Digits by hand</h1>" in page.text
    assert "Draw one." in page.text


def test_the_models_are_listed(client):
    assert "/console/playground/digits" in client.get("/console/playground/").text
    assert client.get("/console/playground.json").json["models"][0]["name"] == "digits"


def test_the_script_gets_what_is_known_about_the_model(client):
    known = client.get("/console/playground/digits.json").json

    assert known["paths"][0]["path"] == "/digits/predict"
    assert known["needs_token"] is False


def test_a_page_of_a_model_that_is_not_there_names_those_that_are(client):
    page = client.get("/console/playground/<digits2>")

    assert "No model is called &lt;digits2&gt;." in page.text
    assert "/console/playground/digits" in page.text


@pytest.mark.parametrize("path", ["digits2", "digits2.json", "digits2/files/a/three.png"])
def test_a_model_that_is_not_there_is_not_found(client, path):
    assert client.get(f"/console/playground/{path}").status_code == 404


def test_the_file_of_an_example_is_given_as_a_download(client):
    answer = client.get("/console/playground/digits/files/a/three.png")

    assert answer.data == b"\x89PNG"
    assert answer.headers["Content-Disposition"] == "attachment"


@pytest.mark.parametrize(
    "name", ["secret.txt", "a/../secret.txt", "..%2Fsecret.txt", "a", "%2Fetc/passwd"]
)
def test_no_other_file_is_given(client, name):
    answer = client.get(f"/console/playground/digits/files/{name}", follow_redirects=True)

    assert answer.status_code == 404


def test_a_request_is_written_as_code_without_the_token_for_management(client):
    answer = client.post("/console/playground/digits/snippets", json=CALL)

    assert answer.json == {"curl": "curl http://h:1/digits/predict", "model": "digits"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"server": 1}', 400),
        (b'{"server": "a", "path": "/digits/predict", "more": 1}', 400),
        (b'{"server": "a", "path": "/other"}', 404),
        (b" " * (2 << 20), 413),
    ],
    ids=["not JSON", "another type", "an unknown member", "another path", "too long"],
)
def test_a_mistake_in_a_request_to_write_is_refused(client, body, status):
    assert client.post("/console/playground/digits/snippets", data=body).status_code == status


def test_where_pages_need_a_token_code_does_too(tmp_path):
    remote = client_of(StandInWithModel(tmp_path, bind=("0.0.0.0:8080",)))

    assert remote.post("/console/playground/digits/snippets", json=CALL).status_code == 401
    assert remote.get("/console/playground/digits").status_code == 401
