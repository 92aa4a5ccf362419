# SPDX-License-Identifier: Apache-2.0
"""Archives of TorchServe behind a running server, as its clients use them."""

import json
from http.client import HTTPConnection

import pytest
from torch_archives import write_directory, write_mar, write_tgz

from servekit import serve

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
JSON = {"Content-Type": "application/json"}

ECHO = '''
    """Answers with what it was asked, and does what a request says."""

    from ts.utils.util import PredictionException


    def handle(data, context):
        if data is None:
            context.metrics.add_metric("loads", 1, "count")
            return None
        return [answer(row.get("body"), index, row, context) for index, row in enumerate(data)]


    def answer(body, index, row, context):
        context.metrics.add_counter("rows", 1, index)
        if body == "refuse":
            raise PredictionException("not today", 418)
        if body == "fail":
            raise ValueError("secret")
        if body == "memory":
            raise MemoryError
        if body == "set":
            return object()
        if body == "head":
            context.set_response_status(202, "later", index)
            context.set_response_header(index, "X-Own", "1")
            context.set_response_content_type(index, "text/csv")
            return "a,b"
        if body == "explain":
            return {"explain": context.get_request_header(index, "Explain")}
        if body == "path":
            return context.get_request_header(index, "url_path")
        return {"row": {name: str(value) for name, value in row.items()}}
'''
STREAM = '''
    """Sends the words of a text one by one."""

    from ts.handler_utils.utils import send_intermediate_predict_response


    class Words:
        def initialize(self, context):
            self.end = context.model_yaml_config["handler"]["end"]

        def handle(self, data, context):
            words = data[0]["body"].split()
            for word in words:
                send_intermediate_predict_response([word], context.request_ids, "", 200, context)
            if not words:
                context.set_response_status(404, "", 0)
            return [self.end]
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    top = tmp_path_factory.mktemp("torchserve")
    models = {
        "echo": write_mar(top / "echo.mar", ECHO),
        "words": write_tgz(top / "w.tar.gz", STREAM, name="words", config="handler: {end: '.'}"),
        "plain": write_directory(top / "plain", "def handle(data, context): return data and None"),
        "few": write_directory(top / "few", "def handle(data, context): return []", name="few"),
    }
    settings = {"block": False, "port": 0, "cache_dir": str(top / "cache")}
    with serve({name: str(path) for name, path in models.items()}, **settings) as found:
        yield found


def ask(server, method, path, body=None, headers=JSON):
    """Return status, header fields and body; what is not bytes is sent as JSON."""
    sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection = HTTPConnection(server.url.partition("://")[2], timeout=60)
    try:
        connection.request(method, path, sent, headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def post(server, path, body, headers=JSON):
    """Return status and body; JSON is decoded."""
    status, fields, content = ask(server, "POST", path, body, headers)
    is_json = fields["Content-Type"] == "application/json"
    return status, json.loads(content) if is_json else content


@pytest.mark.parametrize(
    "path",
    [
        "/predictions/echo",
        "/predictions/echo/1.0",
        "/models/echo/invoke",
        "/v1/models/echo:predict",
        "/v2/models/echo/infer",
        "/echo/predict",
    ],
)
def test_every_path_of_a_prediction_answers(server, path):
    assert post(server, path, {"a": 1}) == (200, {"row": {"body": "{'a': 1}"}})


def test_json_is_written_as_torchserve_writes_it(server):
    _, _, body = ask(server, "POST", "/predictions/echo", b"1")

    assert body == b'{\n  "row": {\n    "body": "1"\n  }\n}'


FORM = (
    b'--X\r\nContent-Disposition: form-data; name="text"\r\n\r\nhello\r\n'
    b'--X\r\nContent-Disposition: form-data; name="data"; filename="a"\r\n'
    b"Content-Type: application/json\r\n\r\n[1]\r\n--X--\r\n"
)


@pytest.mark.parametrize(
    ("body", "content_type", "row"),
    [
        pytest.param(b"{bad", "application/json", {"body": "bytearray(b'{bad')"}, id="not JSON"),
        pytest.param(b"text", "text/plain", {"body": "text"}, id="text"),
        pytest.param(b"\xff", "image/jpeg", {"body": r"bytearray(b'\xff')"}, id="bytes"),
        pytest.param(b"\xff", "", {"body": r"bytearray(b'\xff')"}, id="no type"),
        pytest.param(
            FORM,
            "multipart/form-data; boundary=X",
            {"text": "bytearray(b'hello')", "data": "[1]"},
            id="form",
        ),
        pytest.param(
            b"a=1&b=",
            "application/x-www-form-urlencoded",
            {"a": "bytearray(b'1')", "b": "bytearray(b'')"},
            id="urlencoded",
        ),
    ],
)
def test_a_body_becomes_a_row(server, body, content_type, row):
    headers = {"Content-Type": content_type} if content_type else {}

    assert post(server, "/predictions/echo", body, headers) == (200, {"row": row})


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("refuse", 418, "not today"),
        ("fail", 503, "Prediction failed"),
        ("memory", 507, "Out of resources"),
        ("set", 503, "Unsupported model output data type."),
    ],
)
def test_what_a_handler_raises_becomes_an_error_of_torchserve(server, body, status, message):
    table = {"code": status, "type": "InternalServerException", "message": message}

    assert post(server, "/predictions/echo", body) == (status, table)


@pytest.mark.parametrize(
    ("model", "message"),
    [("plain", "Invalid model predict output"), ("few", "number of batch response mismatched")],
)
def test_a_handler_that_returns_something_else_is_an_error(server, model, message):
    status, found = post(server, f"/predictions/{model}", 1)

    assert (status, found["message"]) == (503, message)


def test_a_handler_sets_status_headers_and_type(server):
    status, headers, body = ask(server, "POST", "/predictions/echo", "head")

    assert (status, headers["X-Own"], headers["Content-Type"], body) == (
        202,
        "1",
        "text/csv",
        b"a,b",
    )


def test_explanations_and_paths_are_headers_of_the_request(server):
    assert post(server, "/explanations/echo", "explain")[1] == {"explain": "True"}
    assert post(server, "/predictions/echo", "explain")[1] == {"explain": "False"}
    assert post(server, "/predictions/echo/1.0/v1/chat", "path")[1] == b"v1/chat"


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("POST", "/predictions/nobody", 404, "ModelNotFoundException"),
        ("POST", "/predictions/echo/9.9", 404, "ModelVersionNotFoundException"),
        ("POST", "/predictions/", 404, "ResourceNotFoundException"),
        ("DELETE", "/predictions/echo", 405, "MethodNotAllowedException"),
    ],
)
def test_errors_have_the_form_of_torchserve(server, method, path, status, kind):
    found, _, body = ask(server, method, path, b"1")

    assert (found, json.loads(body)["code"], json.loads(body)["type"]) == (status, status, kind)


def test_health_and_descriptions(server):
    assert json.loads(ask(server, "GET", "/ping")[2]) == {"status": "Healthy"}
    title = json.loads(ask(server, "GET", "/api-description")[2])["info"]["title"]
    assert title == "TorchServe APIs"
    paths = json.loads(ask(server, "OPTIONS", "/predictions/echo")[2])["paths"]
    assert [*paths] == ["/predictions/echo", "/explanations/echo"]
    assert "/predictions/echo" in json.loads(ask(server, "GET", "/openapi.json")[2])["paths"]


def test_parts_are_sent_before_the_response(server):
    status, headers, body = ask(server, "POST", "/predictions/words", b"a b c", {})
    assert (status, body) == (200, b"abc.")
    assert headers["Transfer-Encoding"] == "chunked"


def test_a_response_without_parts_has_its_own_status(server):
    status, _, body = ask(server, "POST", "/predictions/words", b"", {"Content-Type": "text/plain"})

    assert (status, body) == (404, b".")


def test_metrics_of_handlers_are_metrics_of_the_server(server):
    post(server, "/predictions/echo", 1)
    text = ask(server, "GET", "/metrics")[2].decode()

    assert 'servekit_model_handler_counter_total{dimensions="",model="echo"' in text
    assert 'name="rows"' in text


def test_metrics_have_the_names_of_torchserve(server):
    post(server, "/predictions/echo", 1)
    post(server, "/predictions/echo", "fail")
    text = ask(server, "GET", "/metrics")[2].decode()
    found = dict(
        line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(("ts_", "Requests"))
    )
    names = [each for each in found if 'model_name="echo"' in each]

    assert sorted(name.partition("{")[0] for name in names) == [
        "ts_inference_latency_microseconds",
        "ts_inference_requests_total",
        "ts_queue_latency_microseconds",
    ]
    assert all(float(found[name]) >= 0 for name in names)
    assert any(each.startswith("Requests5XX{") for each in found)
