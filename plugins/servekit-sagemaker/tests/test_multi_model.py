# SPDX-License-Identifier: Apache-2.0
"""A multi-model endpoint: models come, are invoked, listed, and go."""

import json

import pytest
from flask import Flask
from servekit_sagemaker.environment import SageMakerEnvironment
from servekit_sagemaker.multi_model import create_blueprint

from servekit.extension import OperationRow

from .conftest import write_model

pytestmark = pytest.mark.slow

HASH = "0b5c1ed2f9"  #: names are made by SageMaker


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("ml")


@pytest.fixture(scope="module")
def container(start, base):
    return start(base, SAGEMAKER_MULTI_MODEL="true").wait_ready()


def load(container, base, name, kind="Echo"):
    url = str(write_model(base / "models" / name / "model", kind))
    return container.invoke({"model_name": name, "url": url}, "/models")


@pytest.mark.e2e
def test_models_come_are_invoked_and_go(container, base):
    assert json.loads(container.send("GET", "/models")[2]) == {"models": []}
    entry = {"modelName": HASH, "modelUrl": f"{base}/models/{HASH}/model"}

    assert load(container, base, HASH) == (200, entry)
    assert load(container, base, HASH)[0] == 409
    assert json.loads(container.send("GET", "/models")[2]) == {"models": [entry]}
    assert json.loads(container.send("GET", f"/models/{HASH}")[2]) == entry
    target = {"X_Amzn_SageMaker_Target_Model": "echo.tar.gz"}
    assert container.invoke([1], f"/models/{HASH}/invoke", **target) == (200, [1])
    assert container.invoke([1], X_Amzn_SageMaker_Target_Model=HASH) == (200, [1])
    assert container.send("DELETE", f"/models/{HASH}")[0] == 200
    assert container.send("DELETE", f"/models/{HASH}")[0] == 404
    assert container.send("GET", f"/models/{HASH}")[0] == 404
    assert container.invoke([1], f"/models/{HASH}/invoke")[0] == 404
    assert load(container, base, HASH)[0] == 200
    assert container.send("DELETE", f"/models/{HASH}")[0] == 200
    assert container.send("GET", "/ping")[0] == 200


@pytest.mark.e2e
def test_a_model_that_cannot_be_loaded_is_an_error_with_the_reason(container, base):
    write_model(base / "models/broken/model")
    (base / "models/broken/model/service.py").write_text("raise ValueError('as asked')")
    url = str(base / "models/broken/model")
    status, told = container.invoke({"model_name": "broken", "url": url}, "/models")

    assert status == 422
    assert "as asked" in told["error"]
    assert container.send("GET", "/models/broken")[0] == 404


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "body"),
        (b'{"url": "/a"}', "model_name"),
        (b'{"model_name": "", "url": "BASE/models/none"}', "model_name"),
        (b'{"model_name": "a", "url": "/a\\u0000"}', "url: "),
        (b'{"model_name": "a", "url": "BASE/models/%s"}' % (b"x" * 300), "url: "),
        (b'{"model_name": "a", "url": "/etc"}', "url: not a path below"),
        (b'{"model_name": "a", "url": "s3://bucket/a"}', "url: not a path below"),
        (b'{"model_name": "a", "url": "BASE/models/none"}', "url: there are 0 models, expected 1"),
        (b'{"model_name": "a", "url": "BASE/models/../model"}', "url: not a path below"),
    ],
)
def test_requests_that_cannot_be_meant_are_refused(container, base, body, text):
    status, headers, said = container.send(
        "POST", "/models", body.replace(b"BASE", str(base).encode()), "application/json"
    )

    assert (status, headers.get_content_type()) == (400, "application/json")
    assert text in json.loads(said)["error"]


@pytest.mark.e2e
def test_invocations_need_a_target(container):
    status, told = container.invoke(1)

    assert status == 400
    assert "X-Amzn-SageMaker-Target-Model: missing" in told["error"]


# ---------------------------------------------------------------- without processes


class Models:
    """Stands for a front-end whose operations end as they are told to."""

    def __init__(self, directory, names=(), *, refusals=0, **row):
        self.models = dict.fromkeys(names)
        self.run_directory = directory / "run"
        self.run_directory.mkdir()
        refused = OperationRow("0", "load", "m", state="failed", status=503)
        self._rows = [*[refused] * refusals, OperationRow("1", "load", "m", **row)]

    def operate(self, operation, wait_s):
        return self._rows.pop(0)


def client(directory, *names, **row):
    app = Flask("test")
    container = SageMakerEnvironment(directory, is_multi_model=True)
    app.register_blueprint(create_blueprint(Models(directory, names, **row), container))
    return app.test_client()


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ({"state": "failed", "status": 507, "error": "no memory"}, 507),
        ({"state": "failed", "error": "no idea"}, 500),
        ({"state": "running"}, 504),
    ],
)
def test_failures_have_the_status_of_the_operation(tmp_path, row, status):
    url = str(write_model(tmp_path / "models/m/model"))
    asked = {"model_name": "m", "url": url}

    assert client(tmp_path, **row).post("/models", json=asked).status_code == status


def test_a_server_that_still_starts_is_asked_again(tmp_path):
    url = str(write_model(tmp_path / "models/m/model"))
    asked = client(tmp_path, refusals=2, state="done")

    assert asked.post("/models", json={"model_name": "m", "url": url}).status_code == 200


def test_the_list_has_pages(tmp_path):
    names = [f"m{number:03}" for number in range(250)]
    pages, token, asked = [], "", client(tmp_path, *names)
    while True:
        query = f"?next_page_token={token}" if token else ""
        page = asked.get(f"/models{query}").json
        pages.append([each["modelName"] for each in page["models"]])
        if not (token := page.get("nextPageToken", "")):
            break

    assert [len(page) for page in pages] == [100, 100, 50]
    assert [name for page in pages for name in page] == names


def test_the_name_is_looked_up_before_the_files(tmp_path):
    asked = {"model_name": "m", "url": "/nowhere"}

    assert client(tmp_path, "m").post("/models", json=asked).status_code == 409
