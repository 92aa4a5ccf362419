# SPDX-License-Identifier: Apache-2.0
"""The protocol of the guide, offered by an installed plugin, in front of real models."""

import http.client
import json
import re
import threading
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/writing-a-plugin.md").read_text(encoding="utf-8")
MODEL = ROOT / "tests/e2e/models/text/service.py"
HOOKS = """
from servekit import hookimpl

@hookimpl
def register_protocols(server):
    from chat import Chat
    from lines import Lines
    from native import Native

    return [Lines(), Chat(), Native()]
"""
STEPS = """
name = "steps"
pipeline = ["upper", "reverse"]

[stages.upper]
service = "service:Upper"

[stages.reverse]
service = "service:Reverse"

[stages.words]
service = "service:Words"

[routes."/steps/words"]
steps = ["upper", "words"]
"""
#: the first line of a body names the model
CHAT = """
from lines import Lines, LinesEnvelope
from servekit.errors import BodyMalformed
from servekit.extension import PredictionCall

class Chat(Lines):
    paths = ("/chat",)
    envelope = "chat:ChatEnvelope"
    keep_alive = b"~"

    def find(self, head):
        return PredictionCall(model="upper", is_provisional=True)

    def find_model(self, body):
        name, line, _ = bytes(body[:100]).partition(b"\\n")
        if not line:
            raise BodyMalformed("no model")
        return name.decode()

class ChatEnvelope(LinesEnvelope):
    def decode(self, request):
        name, *lines = super().decode(request)
        request.is_stream = name == "words"
        return lines

    def encode_output(self, request, output):
        if output == "at-once":
            request.is_stream = False
            return b""
        return super().encode_output(request, output)
"""
#: bodies and answers are those of the routes of models
NATIVE = """
from lines import Lines
from servekit.extension import PredictionCall

class Native(Lines):
    paths = ("/native/",)

    def find(self, head):
        return PredictionCall(model=head.path.decode().removeprefix("/native/"), is_native=True)
"""
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Install the plugin of the guide, and write models."""
    top = tmp_path_factory.mktemp("protocols")
    section = GUIDE.partition("### register_protocols(server)")[2].partition("\n### ")[0]
    (top / "lines.py").write_text(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1])
    (top / "chat.py").write_text(CHAT)
    (top / "native.py").write_text(NATIVE)
    (top / "lines_hooks.py").write_text(HOOKS)
    (top / "lines-1.0.dist-info").mkdir()
    (top / "lines-1.0.dist-info/METADATA").write_text("Name: lines\nVersion: 1.0\n")
    (top / "lines-1.0.dist-info/entry_points.txt").write_text("[servekit]\nlines = lines_hooks\n")
    for name, kind, more in (
        ("upper", "Upper", "[batching]\nmax_batch_size = 4\n"),
        ("cached", "Upper", "[cache]\nttl_s = 60\nmax_bytes = 100000\n"),
        ("words", "Words", ""),
    ):
        (top / name).mkdir()
        (top / name / "service.py").write_text(MODEL.read_text())
        toml = f'name = "{name}"\nservice = "service:{kind}"\n{more}'
        (top / name / "model.toml").write_text(toml)
    (top / "steps").mkdir()
    (top / "steps/service.py").write_text(MODEL.read_text())
    (top / "steps/model.toml").write_text(STEPS)
    return top


@pytest.fixture(scope="module")
def server(serve, directory):
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", str(directory))
    models = [directory / name for name in ("upper", "cached", "words", "steps")]
    token, log = directory / "token", directory / "access.log"
    token.write_text("secret-token\n")
    yield serve(
        "--models", *models, "--predict-token-file", token, "--max-body", "1MiB",
        "--access-log", log, "--large-body", "64KiB",
    )  # fmt: skip
    patch.undo()


def post(server, path, body, token="secret-token", **headers):
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    return server.post(path, body, "text/plain", **headers)


def test_lines_in_lines_out(server):
    status, headers, body = post(server, "/lines/upper", b"one\ntwo\n", X_Request_Id="r-1")

    assert (status, body) == (200, b"ONE\nTWO\n")
    assert headers["Content-Type"] == "text/plain"
    assert headers["X-Request-Id"] == "r-1"
    assert "queue;dur=" in headers["Server-Timing"]


def test_inputs_of_many_requests_share_batches_that_are_never_too_long(server):
    bodies = {}

    def ask(at):
        bodies[at] = post(server, "/lines/upper", b"\n".join([b"sleep%d" % at] * 3))[2]

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = json.loads(server.post("/upper/longest", b'"x"', Authorization="Bearer secret-token")[2])

    assert bodies == {at: b"SLEEP%d\n" % at * 3 for at in range(4)}
    assert told["prediction"] == 4


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "text"),
    [
        pytest.param("/lines/none", b"a", {}, 404, "no model is called none", id="unknown model"),
        pytest.param("/lines/upper", b"refuse", {}, 422, "no text", id="input refused"),
        pytest.param("/lines/upper", b"\xff", {}, 400, "body: not readable", id="malformed body"),
        pytest.param("/lines/upper", b"a", {"token": ""}, 401, "a bearer token", id="no token"),
        pytest.param(
            "/lines/upper", b"sleep", {"X_Request_Timeout_Ms": "100"}, 504, "Deadline exceeded",
            id="too late",
        ),
        pytest.param(
            "/lines/upper", b"a", {"X_Request_Timeout_Ms": "soon"}, 400, "X-Request-Timeout-Ms",
            id="no timeout",
        ),
        pytest.param(
            "/lines/upper", b"a", {"Content_Encoding": "x"}, 415, "Content-Encoding", id="coding"
        ),
        pytest.param(
            "/lines/words?stream", b"a\nb", {}, 422, "a stream has one input, got 2",
            id="two streams",
        ),
    ],
)  # fmt: skip
def test_every_error_has_the_shape_of_the_protocol(server, path, body, headers, status, text):
    found, fields, said = post(server, path, body, **headers)

    assert (found, fields["Content-Type"]) == (status, "text/plain")
    assert said.startswith(b"ERROR ")
    assert text in said.decode()
    assert said.endswith(b"\n")


def test_method_that_is_not_allowed(server):
    with_get = server.get("/lines/upper")

    assert with_get == (405, b"ERROR allowed here: POST\n")


def test_other_paths_are_answered_as_without_protocols(server):
    status, headers, _ = post(server, "/other/upper", b"a")

    assert (status, headers["Content-Type"]) == (404, "application/problem+json")
    assert post(server, "/upper/predict", b"a")[2] == b'{"prediction":"A"}'


def test_large_bodies_and_answers(server):
    body = b"\n".join([b"x" * 1000] * 500)

    assert post(server, "/lines/upper", body)[2] == body.upper() + b"\n"


def test_responses_are_cached_apart_from_those_of_other_routes(server):
    native = [post(server, "/cached/predict", b"a")[1]["X-Cache"] for _ in range(2)]
    lines = [post(server, "/lines/cached", b"a") for _ in range(2)]

    other = post(server, "/lines/cached?other", b"a")[1]["X-Cache"]
    stream = post(server, "/lines/cached?stream", b"a")[1]["X-Cache"]

    assert native == ["miss", "hit"]
    assert (other, stream) == ("hit", "miss")  # the query says nothing, the call differs
    assert [headers["X-Cache"] for _, headers, _ in lines] == ["miss", "hit"]
    assert [body for _, _, body in lines] == [b"A\n"] * 2


def test_requests_are_counted_and_logged(server, directory):
    post(server, "/lines/cached", b"refuse")
    metrics = server.get("/metrics")[1].decode()
    counted = re.findall(
        r'servekit_requests_total\{model="cached",status="422",version="1.0"\} (\S+)', metrics
    )
    log = directory / "access.log"

    assert [float(each) for each in counted] == [1.0]
    wait_until(lambda: '"/lines/cached"' in log.read_text(), "the access log has it")


@pytest.mark.parametrize("count", [1, 50])
def test_a_model_of_several_workers(server, count):
    lines = [b"%d" % at + b"x" * 2000 for at in range(count)]
    status, headers, body = post(server, "/lines/steps", b"\n".join(lines))

    assert (status, body) == (200, b"".join(line.upper()[::-1] + b"\n" for line in lines))
    assert headers["Content-Type"] == "text/plain"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        pytest.param(b"a\nrefuse\nb", 422, b"ERROR no text\n", id="in the first stage"),
        pytest.param(b"a\nend", 500, b"ERROR Prediction failed\n", id="in the last stage"),
        pytest.param(b"\xff", 400, b"ERROR body: not readable\n", id="in the envelope"),
    ],
)
def test_errors_of_a_model_of_several_workers(server, body, status, said):
    found, _, answer = post(server, "/lines/steps", body)

    assert (found, answer) == (status, said)


@pytest.mark.parametrize("count", [1, 500])
def test_the_body_names_the_model(server, count):
    lines = [b"x" * 1000] * count
    for model in (b"upper", b"cached"):
        status, _, body = post(server, "/chat", b"\n".join([model, *lines]))

        assert (status, body) == (200, b"\n".join([*lines, b""]).upper())


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"none\na", 404, b"ERROR no model is called none\n"),
        (b"upper", 400, b"ERROR no model\n"),
        (b"cached\nrefuse", 422, b"ERROR no text\n"),
    ],
)
def test_errors_of_bodies_that_name_the_model(server, body, status, said):
    found, _, answer = post(server, "/chat", body)

    assert (found, answer) == (status, said)


# ---------------------------------------------------------------- native requests


@pytest.mark.parametrize(
    ("model", "accept", "answer"),
    [
        ("upper", "", b'"AB"'),
        ("upper", "text/plain", b"AB"),
        ("upper", "application/json;q=0.5, application/msgpack", b"\xa2AB"),
        ("steps", "", b'"BA"'),
    ],
)
def test_native_requests_are_answered_bare(server, model, accept, answer):
    more = {"Accept": accept} if accept else {}

    assert post(server, f"/native/{model}", b"ab", **more)[::2] == (200, answer)


def test_errors_of_native_requests_have_the_shape_of_the_protocol(server):
    refused = post(server, "/native/upper", b"refuse")
    unfit = post(server, "/native/upper", b"a", Accept="a/b")

    assert refused[::2] == (422, b"ERROR no text\n")
    assert (unfit[0], unfit[2][:13]) == (406, b"ERROR Accept:")


def test_native_responses_are_cached_apart(server):
    native = [post(server, "/cached/predict", b"apart")[::2] for _ in range(2)]
    bare = [post(server, "/native/cached", b"apart")[::2] for _ in range(2)]

    assert native == [(200, b'{"prediction":"APART"}')] * 2
    assert bare == [(200, b'"APART"')] * 2


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ("text/event-stream", b'data: "one"\n\nevent: error\ndata: {'),
        ("application/x-ndjson", b'"one"\n{"error":'),
    ],
)
def test_native_streams_are_those_of_the_route(server, accept, answer):
    _, headers, body = post(server, "/native/words", b"one fail", Accept=accept)

    assert headers["Content-Type"] == accept
    assert body.startswith(answer)


# ---------------------------------------------------------------- streams


def opened(server, body, path="/lines/words?stream"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", path, body, {"Authorization": "Bearer secret-token"})
    return connection, connection.getresponse()


def test_outputs_are_sent_as_they_come(server):
    connection, response = opened(server, b"one sleep sleep two")
    first = response.readline()
    rest = response.read()
    connection.close()

    assert (response.status, response.headers["Content-Type"]) == (200, "text/plain")
    assert (first, rest) == (b"one\n", b"sleep\nsleep\ntwo\n")


def test_a_stream_ends_with_an_error_of_the_protocol(server):
    connection, response = opened(server, b"one fail")
    found = response.read()
    connection.close()

    assert found == b"one\nERROR Prediction failed\n"


def test_without_a_stream_the_output_is_the_list_of_outputs(server):
    assert post(server, "/lines/words", b"one two")[2] == b"['one', 'two']\n"
    assert post(server, "/lines/words", b"one two\na b")[2] == b"['one', 'two']\n['a', 'b']\n"


def test_the_body_asks_for_a_stream_and_pauses_are_filled(server):
    connection, response = opened(server, b"words\none pause two", "/chat")
    found = response.read()
    connection.close()

    assert found.replace(b"~", b"") == b"one\npause\ntwo\n"
    assert b"~" in found


def test_the_first_output_may_say_that_there_is_no_stream(server):
    status, headers, body = post(server, "/chat", b"words\nat-once two")

    assert (status, body) == (200, b"['at-once', 'two']\n")
    assert "Content-Length" in headers


def test_a_model_that_does_not_stream_answers_at_once(server):
    assert post(server, "/lines/upper?stream", b"one\ntwo")[2] == b"ONE\nTWO\n"


def test_a_client_that_leaves_frees_its_stream(server):
    connection, response = opened(server, b"sleep " * 1000)
    response.readline()
    response.close()
    connection.close()

    def is_over():
        return (
            'servekit_streams_open{model="words",version="1.0"} 0'
            in server.get("/metrics")[1].decode()
        )

    wait_until(is_over, "the stream is over")


def test_a_worker_that_dies_in_a_stream(server):
    connection, response = opened(server, b"one sleep die")
    found = response.read()
    connection.close()

    assert found == b"one\nsleep\nERROR Worker lost\n"
