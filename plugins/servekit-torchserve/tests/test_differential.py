# SPDX-License-Identifier: Apache-2.0
"""The same archives and requests in TorchServe and in servekit: equal answers.

``TORCHSERVE_BIN`` names the folder with ``torchserve`` and ``python`` of an environment that has
TorchServe 0.12 and torch; Java 17 must be on the path.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from io import BytesIO
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from servekit import serve
from tests.processes import free_ports

BIN = os.environ.get("TORCHSERVE_BIN", "")
NAMES = ("function", "table", "numbers", "eager", "pictures")
JSON = "application/json"
START_S = 120

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not BIN, reason="TORCHSERVE_BIN names no TorchServe"),
]


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Return a directory with the archives that the real archiver has written."""
    pytest.importorskip("torch")
    pytest.importorskip("model_archiver")
    top = tmp_path_factory.mktemp("archives")
    command = [sys.executable, str(Path(__file__).with_name("build_archives.py")), str(top)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return top


@contextmanager
def torchserve(directory, names):
    """Serve the archives in *directory* with TorchServe; yield its port."""
    ports = free_ports(5)
    keys = ("inference_address", "management_address", "metrics_address")
    lines = [f"{key}=http://127.0.0.1:{port}" for key, port in zip(keys, ports, strict=False)]
    lines += [f"grpc_inference_port={ports[3]}", f"grpc_management_port={ports[4]}"]
    lines += ["disable_token_authorization=true", "default_workers_per_model=1"]
    (directory / "config.properties").write_text("\n".join(lines))
    command = [f"{BIN}/python", f"{BIN}/torchserve", "--start", "--foreground", "--ncs"]
    command += ["--ts-config", str(directory / "config.properties"), "--models"]
    command += [f"{name}={name}.mar" for name in names]
    command += ["--model-store", str(directory)]
    path = f"{BIN}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "LOG_LOCATION": str(directory / "logs")}
    environment |= {"METRICS_LOCATION": str(directory / "logs"), "TMPDIR": str(directory)}
    with (directory / "torchserve.log").open("wb") as log:
        options = {"cwd": directory, "env": environment, "start_new_session": True}
        process = subprocess.Popen(command, stdout=log, stderr=log, **options)
    try:
        yield ports[0]
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # Java, which the program has started, and workers
        process.wait()


@pytest.fixture(scope="module")
def servers(archives, tmp_path_factory):
    """Return the addresses of both servers, all models loaded."""
    cache = str(tmp_path_factory.mktemp("cache"))
    models = {name: str(archives / f"{name}.mar") for name in NAMES}
    with (
        torchserve(archives, NAMES) as port,
        serve(models, block=False, port=0, cache_dir=cache) as ours,
    ):
        theirs = f"127.0.0.1:{port}"
        wait_until(lambda: ask(theirs, "GET", "/ping")[1] == {"status": "Healthy"})
        yield theirs, ours.url.partition("://")[2]


def wait_until(is_true):
    deadline, pause = monotonic() + START_S, Event()
    while True:
        try:
            if is_true():
                return
        except (OSError, HTTPException):
            pass
        assert monotonic() < deadline, "TorchServe is not healthy"
        pause.wait(0.2)


def ask(address, method, path, body=None, content_type=JSON):
    """Return status and body, decoded if it is JSON."""
    connection = HTTPConnection(address, timeout=60)
    headers = {"Content-Type": content_type} if content_type else {}
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    try:
        return response.status, json.loads(content)
    except ValueError:
        return response.status, content


FORM = (
    b'--X\r\nContent-Disposition: form-data; name="text"\r\n\r\nhello\r\n'
    b'--X\r\nContent-Disposition: form-data; name="typed"\r\n'
    b"Content-Type: application/json\r\n\r\n[1]\r\n"
    b'--X\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n'
    b"Content-Type: application/json\r\n\r\n[1]\r\n"
    b'--X\r\nContent-Disposition: form-data; name="picture"; filename="b"\r\n'
    b"Content-Type: image/jpeg\r\n\r\n\xff\xd8\r\n--X--\r\n"
)
FUNCTION = "/predictions/function"
TABLE = "/predictions/table"
URLENCODED = "application/x-www-form-urlencoded"
INSTANCES, INPUTS = b'{"instances": [1]}', b'{"inputs": []}'
CASES = [
    pytest.param("POST", FUNCTION, b'{"a": [1, 2.5, null, "\xc3\xa4"]}', JSON, id="json"),
    pytest.param("POST", FUNCTION, b"1", "application/json; charset=utf-8", id="charset"),
    pytest.param("POST", FUNCTION, b"{bad", JSON, id="not json"),
    pytest.param("POST", FUNCTION, b"NaN", JSON, id="nan"),
    pytest.param("POST", FUNCTION, "tëxt".encode(), "text/plain", id="text"),
    pytest.param("POST", FUNCTION, b"a,b", "text/csv", id="csv"),
    pytest.param("POST", FUNCTION, b"\xff\xfe", "text/plain", id="not utf-8"),
    pytest.param("POST", FUNCTION, b"\xff\xd8", "image/jpeg", id="bytes"),
    pytest.param("POST", FUNCTION, b"\xff\xd8", "", id="no content type"),
    pytest.param("POST", FUNCTION, b"", "", id="no body"),
    pytest.param(
        "POST", FUNCTION, b"a=1&b=x%20y&c=", "application/x-www-form-urlencoded", id="urlencoded"
    ),
    pytest.param("POST", FUNCTION, FORM, "multipart/form-data; boundary=X", id="form"),
    pytest.param("POST", f"{FUNCTION}?q=1", b"1", JSON, id="query"),
    pytest.param("PUT", FUNCTION, b"1", JSON, id="put"),
    pytest.param("GET", FUNCTION, None, "", id="get"),
    pytest.param("POST", f"{FUNCTION}/1.0", b"1", JSON, id="version"),
    pytest.param("POST", f"{FUNCTION}/1.0/v1/chat", b"1", JSON, id="path"),
    pytest.param("POST", f"{FUNCTION}/2.0", b"1", JSON, id="no such version"),
    pytest.param("POST", "/predictions/nobody", b"1", JSON, id="no such model"),
    pytest.param("POST", "/explanations/function", b"1", JSON, id="explanation"),
    pytest.param("POST", "/models/function/invoke?q=1", b"1", JSON, id="invoke"),
    pytest.param("POST", "/function/predict", b"1", JSON, id="legacy"),
    pytest.param("POST", "/v1/models/function:predict", INSTANCES, JSON, id="kserve"),
    pytest.param("POST", "/v1/models/function:explain", INSTANCES, JSON, id="kserve explain"),
    pytest.param("POST", "/v2/models/function/infer", INPUTS, JSON, id="kserve v2"),
    pytest.param("POST", TABLE, b'"a"', JSON, id="string"),
    pytest.param("POST", TABLE, b"1", JSON, id="extra file"),
    pytest.param("POST", TABLE, b'"bytes"', JSON, id="bytes out"),
    pytest.param("POST", TABLE, b'"nested"', JSON, id="nested"),
    pytest.param("POST", TABLE, b'"status"', JSON, id="status"),
    pytest.param("POST", TABLE, b'"refuse"', JSON, id="refused"),
    pytest.param("POST", TABLE, b'"fail"', JSON, id="failed"),
    pytest.param("POST", TABLE, b'"object"', JSON, id="not serialisable"),
    pytest.param("POST", "/predictions/numbers", b"[1, 2, 3, 4]", JSON, id="TorchScript"),
    pytest.param("POST", "/predictions/numbers", b"[1, 2, 3]", JSON, id="wrong shape"),
    pytest.param("POST", "/predictions/eager", b"[1, 2, 3, 4]", JSON, id="model file"),
    pytest.param("GET", "/ping", None, "", id="ping"),
]


@pytest.mark.parametrize(("method", "path", "body", "content_type"), CASES)
def test_answers_are_those_of_torchserve(servers, method, path, body, content_type):
    theirs, ours = (ask(address, method, path, body, content_type) for address in servers)

    assert ours == theirs


@pytest.mark.parametrize("size", [(320, 240), (100, 300), (224, 224)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_pictures_are_classified_as_by_torchserve(servers, size, kind):
    image = pytest.importorskip("PIL.Image")
    file = BytesIO()
    image.radial_gradient("L").resize(size).convert("RGB").rotate(30).save(file, kind)
    theirs, ours = (
        ask(address, "POST", "/predictions/pictures", file.getvalue(), "") for address in servers
    )

    assert ours[0] == theirs[0] == 200
    assert [*ours[1]] == [*theirs[1]]
    assert ours[1] == pytest.approx(theirs[1], abs=1e-5)
