# SPDX-License-Identifier: Apache-2.0
"""The management API of TorchServe, in front of a running server."""

import pytest
from torchserve_process import TorchServeProcess, write_archive

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
NUMBER_OF_MODELS = 2


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = tmp_path_factory.mktemp("torchserve") / "store"
    store.mkdir()
    write_archive(store, "echo.mar", "echo")
    write_archive(store, "echo-2.mar", "echo", "2.0")
    write_archive(store, "other.mar", "other")
    (store / "broken.mar").write_text("not an archive")
    return store


@pytest.fixture(scope="module")
def server(store):
    arguments = ("--models", "echo.mar", "--disable-token-auth", "--enable-model-api")
    with TorchServeProcess(store, *arguments) as process:
        yield process.wait_ready()


@pytest.fixture
def other(server):
    """Register a model without workers; it is gone at the end."""
    assert server.ask("POST", "/models?url=other.mar&model_name=other")[0] == 200
    yield "/models/other"
    server.ask("DELETE", "/models/other")


def predict(server, model, version=""):
    path = f"/{model}/versions/{version}/predict" if version else f"/{model}/predict"
    return server.ask("POST", path, 1, port=server.inference)[1]["prediction"]


def test_a_model_is_registered_scaled_described_and_unregistered(server):
    registered = server.ask("POST", "/models?url=other.mar&initial_workers=1&batch_size=4")
    (described,) = server.ask("GET", "/models/other")[1]
    scaled = server.ask("PUT", "/models/other?min_worker=2&synchronous=true")
    (larger,) = server.ask("GET", "/models/other")[1]
    answer = predict(server, "other")
    gone = server.ask("DELETE", "/models/other/?synchronous=true")

    text = 'Model "other" Version: 1.0 registered with 1 initial workers'
    assert registered == (200, {"status": text})
    assert (described["modelUrl"], described["batchSize"]) == ("other.mar", 4)
    assert [each["status"] for each in described["workers"]] == ["READY"]
    assert scaled == (200, {"status": 'Model "other" has 2 workers'})
    assert (larger["minWorkers"], larger["maxWorkers"], len(larger["workers"])) == (2, 2, 2)
    assert answer == ["1.0", 1]
    assert gone == (200, {"status": 'Model "other" unregistered'})
    assert server.ask("GET", "/models/other")[0] == 404


def test_a_model_without_workers_gets_them_by_scaling_or_by_a_request(server, other):
    (asleep,) = server.ask("GET", other)[1]
    woken = server.ask("PUT", f"{other}?min_worker=1&synchronous=true")[0]
    (awake,) = server.ask("GET", other)[1]
    stopped = server.ask("PUT", f"{other}?min_worker=0&synchronous=true")[0]
    (again,) = server.ask("GET", other)[1]

    assert (asleep["minWorkers"], asleep["workers"]) == (0, [])
    assert (woken, len(awake["workers"])) == (200, 1)
    assert (stopped, again["workers"]) == (200, [])
    assert predict(server, "other") == ["1.0", 1]


def test_changes_that_do_not_wait_are_carried_out_one_after_another(server, other):
    scaled = [server.ask("PUT", f"{other}?min_worker={number}") for number in (1, 2, 1)]
    waited = server.ask("PUT", f"{other}?min_worker=2&synchronous=true")

    assert scaled == [(202, {"status": "Processing worker updates..."})] * 3
    assert waited == (200, {"status": 'Model "other" has 2 workers'})


def test_versions_and_the_default_one(server):
    registered = server.ask("POST", "/models?url=echo-2.mar&initial_workers=1")
    described = server.ask("GET", "/models/echo/all")[1]
    both = [predict(server, "echo"), predict(server, "echo", "2.0")]
    refused = server.ask("DELETE", "/models/echo")
    changed = server.ask("PUT", "/models/echo/2.0/set-default")
    after = [predict(server, "echo"), predict(server, "echo", "1.0")]
    ordered = [each["modelVersion"] for each in server.ask("GET", "/models/echo/all")[1]]
    back = server.ask("PUT", "/models/echo/1.0/set-default")
    gone = server.ask("DELETE", "/models/echo/2.0")

    assert registered[0] == 200
    assert [each["modelVersion"] for each in described] == ["1.0", "2.0"]
    assert both == [["1.0", 1], ["2.0", 1]]
    assert (refused[0], refused[1]["type"]) == (403, "InvalidModelVersionException")
    assert changed == (200, {"status": 'Model "echo" answers with version 2.0'})
    assert after == [["2.0", 1], ["1.0", 1]]
    assert ordered == ["2.0", "1.0"]
    assert (back[0], gone[0]) == (200, 200)
    assert server.ask("GET", "/models/echo/2.0")[0] == 404


def test_the_first_version_can_leave_once_another_is_the_default(server, other):
    server.ask("POST", "/models?url=echo-2.mar&model_name=other&initial_workers=1")
    server.ask("PUT", "/models/other/2.0/set-default")
    gone = server.ask("DELETE", "/models/other/1.0")
    described = server.ask("GET", "/models/other/all")[1]

    assert gone[0] == 200
    assert [each["modelVersion"] for each in described] == ["2.0"]
    assert predict(server, "other") == ["2.0", 1]


def test_models_are_listed_page_by_page(server, other):
    first = server.ask("GET", "/models?limit=1")[1]
    second = server.ask("GET", f"/models?limit=1&next_page_token={first['nextPageToken']}")[1]
    odd = server.ask("GET", "/models?limit=-1&next_page_token=-1")[1]

    assert [each["modelName"] for each in first["models"]] == ["echo"]
    assert [each["modelName"] for each in second["models"]] == ["other"]
    assert "nextPageToken" not in second
    assert len(odd["models"]) == NUMBER_OF_MODELS
    assert server.ask("GET", "/models?next_page_token=12")[1] == {"models": []}


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        pytest.param("POST", "/models", 400, "BadRequestException", id="no url"),
        pytest.param("POST", "/models?url=", 404, "ModelNotFoundException", id="an empty url"),
        pytest.param("POST", "/models?url=no.mar", 404, "ModelNotFoundException", id="no archive"),
        pytest.param(
            "POST", f"/models?url={'x' * 300}.mar", 404, "ModelNotFoundException", id="a long name"
        ),
        pytest.param(
            *("POST", "/models?url=../store/other.mar", 404, "ModelNotFoundException"),
            id="a path out of the model store",
        ),
        pytest.param(
            *("POST", "/models?url=broken.mar&model_name=b", 400, "InvalidModelException"),
            id="a broken archive",
        ),
        pytest.param(
            *("POST", "/models?url=other.mar&runtime=lua", 400, "BadRequestException"),
            id="another runtime",
        ),
        pytest.param(
            *("POST", "/models?url=echo.mar", 409, "ConflictStatusException"),
            id="a version that is registered",
        ),
        pytest.param(
            *("POST", "/models?url=other.mar&handler=x&initial_workers=1", 500),
            "InternalServerException",
            id="workers that do not start",
        ),
        pytest.param("GET", "/models/none", 404, "ModelNotFoundException", id="no model"),
        pytest.param(
            "GET", "/models/echo/9", 404, "ModelVersionNotFoundException", id="no version"
        ),
        pytest.param(
            *("PUT", "/models/echo?min_worker=2&max_worker=1", 400, "BadRequestException"),
            id="fewer than the least",
        ),
        pytest.param(
            *("PUT", "/models/echo?max_worker=-1", 400, "BadRequestException"), id="below 0"
        ),
        pytest.param(
            *("PUT", "/models/echo?min_worker=-1", 500, "InternalServerException"), id="both below"
        ),
        pytest.param(
            *("PUT", "/models/echo/9/set-default", 404, "ModelVersionNotFoundException"),
            id="a default that is not there",
        ),
        pytest.param("DELETE", "/models/none", 404, "ModelNotFoundException", id="unknown"),
        pytest.param("GET", "/nothing", 404, "ResourceNotFoundException", id="no such path"),
        pytest.param("PATCH", "/models", 405, "MethodNotAllowedException", id="no such method"),
    ],
)
def test_errors_have_the_form_of_torchserve(server, method, path, status, kind):
    found, error = server.ask(method, path)

    assert (found, error["code"], error["type"]) == (status, status, kind)
    assert error["message"]


def test_parameters_may_be_json(server):
    registered = server.ask("POST", "/models", {"url": "other.mar", "model_name": "by-json"})
    wrong = server.ask("POST", "/models", ["url"])
    server.ask("DELETE", "/models/by-json")

    assert registered[1]["status"].startswith('Model "by-json" Version: 1.0 registered with 0')
    assert wrong[0] == 400


def test_metrics_are_those_of_the_server(server):
    predict(server, "echo")
    status, text = server.ask("GET", "/metrics", port=server.metrics)

    assert status == 200
    assert "servekit_" in text


def test_a_page_of_a_browser_is_refused_where_no_token_is_needed(server):
    status, error = server.ask("GET", "/models", Origin="http://evil.example")

    assert (status, error["type"]) == (400, "InvalidKeyException")


def test_tokens_are_in_the_key_file_and_models_are_fixed_unless_that_is_enabled(store):
    with TorchServeProcess(store, "--models", "echo.mar") as server:
        server.wait_ready()
        token = {"Authorization": f"Bearer {server.keys['management']['key']}"}
        inference = {"Authorization": f"Bearer {server.keys['inference']['key']}"}
        without, wrong = server.ask("GET", "/models"), server.ask("GET", "/models", **inference)
        listed = server.ask("GET", "/models", **token)
        registered = server.ask("POST", "/models?url=other.mar", **token)
        predicted = server.ask("POST", "/echo/predict", 1, server.inference, **inference)
        refused = server.ask("POST", "/echo/predict", 1, server.inference)[0]
        status = server.stop()

    assert [without[0], without[1]["type"]] == [400, "InvalidKeyException"]
    assert wrong[0] == 400
    assert listed[0] == 200
    assert (registered[0], registered[1]["type"]) == (405, "MethodNotAllowedException")
    assert (predicted[0], refused) == (200, 401)
    assert status == 0


def test_a_server_without_models_is_healthy(store):
    with TorchServeProcess(store) as server:
        health = server.wait_ready().ask("GET", "/ping", port=server.inference)

    assert health == (200, {"status": "Healthy"})
