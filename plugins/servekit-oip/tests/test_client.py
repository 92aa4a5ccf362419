# SPDX-License-Identifier: Apache-2.0
"""The client package of Triton, and its examples, which nobody has changed for us."""

import os
import subprocess
import sys
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from servekit.testing import ServedModel

from .oip_models import write_models

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
http = pytest.importorskip("tritonclient.http", reason="pip install 'tritonclient[http]'")

EXAMPLES = os.environ.get("OIP_TRITON_EXAMPLES", "")
REPOSITORY = ("simple", "simple_string", "simple_identity", "sum", "anything", "shout", "slow")


@pytest.fixture(scope="module")
def client(served):
    found = http.InferenceServerClient(served.url.partition("://")[2])
    yield found
    found.close()


def asked(name, array, datatype, *, is_binary):
    found = http.InferInput(name, array.shape, datatype)
    found.set_data_from_numpy(array, binary_data=is_binary)
    return found


def test_health_and_metadata(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("sum")
    assert client.is_model_ready("sum", "1")
    assert not client.is_model_ready("none")
    assert client.get_model_metadata("sum")["inputs"][0]["name"] == "x"
    assert client.get_model_config("sum")["max_batch_size"] == 8
    assert client.get_inference_statistics("sum")["model_stats"][0]["name"] == "sum"


@pytest.mark.parametrize("is_binary", [False, True])
@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
def test_numbers(client, is_binary, coding):
    array = np.array([[1.5, 2.5], [3, 4]], np.float32)
    found = client.infer(
        "sum",
        [asked("x", array, "FP32", is_binary=is_binary)],
        outputs=[http.InferRequestedOutput("y", binary_data=is_binary)],
        request_id="7",
        request_compression_algorithm=coding,
        response_compression_algorithm=coding,
    )

    assert found.as_numpy("y").tolist() == [4.0, 7.0]
    assert found.get_response()["id"] == "7"


def test_outputs_that_nobody_names_are_bytes(client):
    array = np.ones((1, 3), np.float32)
    found = client.infer("sum", [asked("x", array, "FP32", is_binary=True)])

    assert found.as_numpy("y").tolist() == [3.0]
    assert "data" not in found.get_response()["outputs"][0]


@pytest.mark.parametrize("is_binary", [False, True])
def test_texts(client, is_binary):
    array = np.array([[b"he\0llo", "ü".encode()] * 8], np.object_)
    wanted = [http.InferRequestedOutput("OUTPUT0", binary_data=is_binary)]
    inputs = [asked("INPUT0", array, "BYTES", is_binary=is_binary)]
    found = client.infer("simple_identity", inputs, outputs=wanted).as_numpy("OUTPUT0")

    texts = [each if isinstance(each, str) else each.decode() for each in found.reshape(-1)]
    assert (found.shape, texts) == ((1, 16), ["he\0llo", "ü"] * 8)


def test_the_largest_elements(client):
    array = np.arange(16, dtype=np.int32)[None]
    inputs = [asked(f"INPUT{n}", array, "INT32", is_binary=True) for n in (0, 1)]
    wanted = [http.InferRequestedOutput("OUTPUT0", class_count=2)]
    found = client.infer("simple", inputs, outputs=wanted)

    assert found.as_numpy("OUTPUT0").tolist() == [[b"30:15", b"28:14"]]


def test_errors_are_raised(client):
    array = np.ones((1, 3), np.float32)
    with pytest.raises(http.InferenceServerException, match="Request for unknown model"):
        client.infer("none", [asked("x", array, "FP32", is_binary=True)])
    with pytest.raises(http.InferenceServerException, match="shape"):
        client.infer("sum", [asked("x", array[0], "FP32", is_binary=True)])


# ------------------------------------------------------------ the examples of the client


class AddToken(BaseHTTPRequestHandler):
    """Passes requests on with the token for management, which some examples cannot send."""

    protocol_version = "HTTP/1.1"
    target = ""

    def _pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = HTTPConnection(self.target, timeout=60)
        connection.request(self.command, self.path, body, {"Authorization": "Bearer manager"})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        self.send_response(response.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _pass_on  # noqa: N815 - names of the base class

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def repository(tmp_path_factory, token_file):
    """Return the address where a server of seven models can be managed without a token."""
    store = write_models(tmp_path_factory.mktemp("seven") / "store", REPOSITORY)
    options = {"model_store": str(store), "manage_token_file": str(token_file)}
    with ServedModel(store / "simple", **options) as model:
        AddToken.target = model.wait_ready().url.partition("://")[2]
        with ThreadingHTTPServer(("127.0.0.1", 0), AddToken) as proxy:
            thread = threading.Thread(target=proxy.serve_forever)
            thread.start()
            yield f"127.0.0.1:{proxy.server_address[1]}"
            proxy.shutdown()
            thread.join()


def run_example(name, address, *options):
    command = [sys.executable, str(Path(EXAMPLES) / f"{name}.py"), "-u", address, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not EXAMPLES, reason="OIP_TRITON_EXAMPLES: the examples of tritonclient")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("simple_http_infer_client", ()),
        ("simple_http_infer_client", ("--request-compression-algorithm", "deflate")),
        ("simple_http_infer_client", ("--response-compression-algorithm", "gzip")),
        ("simple_http_async_infer_client", ()),
        ("simple_http_aio_infer_client", ()),
        ("simple_http_health_metadata", ()),
        ("simple_http_string_infer_client", ()),
    ],
)
def test_an_example_of_the_client(served, name, options):
    run_example(name, served.url.partition("://")[2], *options)


@pytest.mark.skipif(not EXAMPLES, reason="OIP_TRITON_EXAMPLES: the examples of tritonclient")
def test_the_example_that_manages_models(repository):
    assert "PASS" in run_example("simple_http_model_control", repository)
