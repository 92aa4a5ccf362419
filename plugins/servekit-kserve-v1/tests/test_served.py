# SPDX-License-Identifier: Apache-2.0
"""Clients of KServe's V1 protocol and of TensorFlow Serving, against a running server."""

import json
import re
import threading
from http.client import HTTPConnection

import pytest

from servekit.testing import ServedModel
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
SERVICE = """
import time
from servekit import InputError, Response, Service, endpoint

class Odd(Service):
    def load(self, context):
        self.context, self.sizes = context, []

    def predict(self, batch):
        self.sizes.append(len(batch))
        answers = []
        for value in batch:
            if value == "sleep":
                time.sleep(3)
            if value == "refuse":
                answers.append(InputError("no"))
            elif value == "fail":
                raise ValueError("as asked")
            elif isinstance(value, dict) and "image" in value:
                answers.append(value["image"].hex())
            else:
                answers.append(value)
        return answers

    @endpoint()
    def explain(self, batch):
        longest, self.sizes = max(self.sizes, default=0), []
        return [{"longest": longest} for _ in batch]
"""
TOML = 'name = "odd"\nversion = "3"\nservice = "service:Odd"\n[batching]\nmax_batch_size = 8\n'
PREDICT = "/v1/models/odd:predict"
PLAIN = "text/plain"  # clients of TensorFlow Serving send any Content-Type


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    top = tmp_path_factory.mktemp("odd")
    (top / "service.py").write_text(SERVICE)
    (top / "model.toml").write_text(TOML)
    return top


@pytest.fixture(scope="module")
def served(directory):
    token = directory.parent / "token"
    token.write_text("secret-token\n")
    with ServedModel(directory, max_body="4MiB", predict_token_file=token) as model:
        yield model.wait_ready()


def post(served, body, path=PREDICT, content_type=PLAIN, **headers):
    """Return status and JSON; what is not bytes is sent as a list of instances."""
    encoded = body if isinstance(body, bytes) else json.dumps({"instances": body}).encode()
    fields = {"Authorization": "Bearer secret-token"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    response = served.post(path, encoded, content_type, fields)
    assert response.headers["Content-Type"] == "application/json"
    return response.status, json.loads(response.body)


@pytest.mark.parametrize(
    ("instances", "predictions"),
    [
        pytest.param([1, "a", None, [2.5], {"x": 1}], [1, "a", None, [2.5], {"x": 1}], id="values"),
        pytest.param([], [], id="none"),
        pytest.param([{"image": {"b64": "AQI="}}], ["0102"], id="bytes"),
        pytest.param([[0] * 100_000] * 3, [[0] * 100_000] * 3, id="a large body and answer"),
        pytest.param(list(range(50)), list(range(50)), id="more than a batch"),
    ],
)
def test_predictions(served, instances, predictions):
    assert post(served, instances) == (200, {"predictions": predictions})


def test_the_server_is_alive(served):
    found = json.loads(served.get("/").body)

    assert (found["status"], found["name"]) == ("alive", "servekit")


@pytest.mark.parametrize("path", ["/v1/models/odd/versions/3:predict", "/v1/models/%6fdd:predict"])
def test_other_names_of_the_same(served, path):
    assert post(served, [1], path) == (200, {"predictions": [1]})


def test_other_members_are_ignored(served):
    body = b'{"signature_name": "serving_default", "instances": [1]}'

    assert post(served, body) == (200, {"predictions": [1]})


def tasks(served, state):
    """Return how many tasks are ``waiting`` or ``running``."""
    text = served.get("/metrics").body.decode()
    return sum(map(float, re.findall(rf"^servekit_tasks_{state}{{.*}} (\S+)", text, re.MULTILINE)))


def test_instances_of_all_clients_share_batches(served):
    answers = []
    post(served, [1], "/v1/models/odd:explain")  # begins to count

    def ask(at):
        answers.append(post(served, ["a", at]))

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(4)]
    with served.paused_worker():
        for thread in threads:
            thread.start()
        wait_until(lambda: tasks(served, "waiting") + tasks(served, "running") == 4, "not all wait")
    for thread in threads:
        thread.join()
    _, explained = post(served, [1], "/v1/models/odd:explain")

    assert sorted(found["predictions"][1] for _, found in answers) == [0, 1, 2, 3]
    assert 2 < explained["explanations"][0]["longest"] <= 8


@pytest.mark.parametrize(
    ("body", "path", "headers", "status", "text"),
    [
        pytest.param(b"[1", PREDICT, {}, 400, "body", id="not JSON"),
        pytest.param(b'{"inputs": []}', PREDICT, {}, 400, "instances", id="no instances"),
        pytest.param(b'{"instances": 1}', PREDICT, {}, 400, "instances", id="not a list"),
        pytest.param(b"[" * 100_000, PREDICT, {}, 400, "body", id="nested"),
        pytest.param([{"x": {"b64": "?"}}], PREDICT, {}, 400, "not base64", id="not base64"),
        pytest.param([1, "refuse"], PREDICT, {}, 400, "no", id="an instance is refused"),
        pytest.param(["fail"], PREDICT, {}, 500, "Prediction failed", id="the service fails"),
        pytest.param([1], "/v1/models/even:predict", {}, 404, "even", id="unknown model"),
        pytest.param(
            [1], "/v1/models/odd/versions/2:predict", {}, 404, "no version 2", id="unknown version"
        ),
        pytest.param([1], "/v1/models/odd:classify", {}, 404, ":classify", id="unknown verb"),
        pytest.param([1], "/v1/models/odd/x", {}, 404, "no route", id="unknown path"),
        pytest.param([1], "/v1/models/odd", {}, 405, "GET", id="method"),
        pytest.param([1], PREDICT, {"Authorization": "Bearer no"}, 401, "token", id="token"),
        pytest.param(
            ["sleep"], PREDICT, {"X_Request_Timeout_Ms": "50"}, 504, "Deadline", id="too late"
        ),
    ],
)
def test_errors(served, body, path, headers, status, text):
    found, said = post(served, body, path, **headers)

    assert (found, list(said)) == (status, ["error"])
    assert text in said["error"]


def test_a_body_that_is_too_large(served):
    connection = HTTPConnection(served.url.partition("://")[2], timeout=60)
    connection.putrequest("POST", PREDICT)
    connection.putheader("Authorization", "Bearer secret-token")
    connection.putheader("Content-Length", str(2**30))
    connection.endheaders()
    response = connection.getresponse()
    said = json.loads(response.read())
    connection.close()

    assert (response.status, list(said)) == (413, ["error"])


@pytest.mark.parametrize(
    ("path", "status", "found"),
    [
        ("/v1/models", 200, {"models": ["odd"]}),
        ("/v1/models/even", 404, {"error": "no model is called even"}),
        ("/v1/models/odd/versions/2", 404, {"error": "no model is called odd of version 2"}),
        (PREDICT, 405, {"error": "allowed here: POST"}),
    ],
)
def test_what_can_be_read_without_a_token(served, path, status, found):
    response = served.get(path)

    assert (response.status, json.loads(response.body)) == (status, found)


@pytest.mark.parametrize("path", ["/v1/models/odd", "/v1/models/odd/versions/3"])
def test_a_model_that_is_ready(served, path):
    status = json.loads(served.get(path).body)

    assert (status["name"], status["ready"]) == ("odd", True)
    assert status["model_version_status"][0]["state"] == "AVAILABLE"
    assert status["model_version_status"][0]["version"] == "3"


def test_the_protocol_is_described(served):
    document = json.loads(served.get("/openapi.json").body)
    operation = document["paths"]["/v1/models/odd:predict"]["post"]

    assert operation["security"] == [{"token": []}]


def test_requests_and_their_errors_are_counted(served):
    text = served.get("/metrics").body.decode()

    assert 'servekit_requests_total{model="odd",status="401",version="3"}' in text
    assert 'servekit_requests_total{model="odd",status="200",version="3"}' in text


def test_a_model_that_is_not_ready_and_a_worker_that_dies(directory):
    with ServedModel(directory) as model:
        model.wait_ready()
        with model.paused_worker():
            answer = []
            thread = threading.Thread(target=lambda: answer.append(post(model, [1])))
            thread.start()
            wait_until(lambda: tasks(model, "running") == 1, "the worker has the request")
            model.kill_worker()
            thread.join()
        status = model.get("/v1/models/odd").status

    assert answer == [(503, {"error": "Worker lost"})]
    assert status in (200, 503)  # the next worker may be there already


WORDS = """
from servekit import InputError, Service

class Words(Service):
    def stream(self, text: str) -> list[str]:
        for word in text.split():
            if word == "stop":
                raise InputError("not this one")
            yield word
"""


def test_each_instance_of_a_service_that_streams_has_a_list_of_outputs(tmp_path):
    (tmp_path / "service.py").write_text(WORDS)
    (tmp_path / "model.toml").write_text('name = "words"\nservice = "service:Words"\n')
    path = "/v1/models/words:predict"
    with ServedModel(tmp_path) as model:
        model.wait_ready()
        found = post(model, ["once upon", "", "a"], path)
        many = post(model, ["a b"] * 100, path)
        refused = post(model, ["once upon", "a stop", "b"], path)

    assert found == (200, {"predictions": [["once", "upon"], [], ["a"]]})
    assert many == (200, {"predictions": [["a", "b"]] * 100})
    assert refused == (400, {"error": "not this one"})
