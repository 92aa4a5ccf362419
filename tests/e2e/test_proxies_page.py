# SPDX-License-Identifier: Apache-2.0
"""``docs/proxies.md``: its configurations, used by the proxies themselves."""

import http.client
import json
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from servekit.testing import ServedModel
from tests.processes import free_port
from tests.waiting import wait_until

from .conftest import WAIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PAGE = (Path(__file__).parents[2] / "docs" / "proxies.md").read_text()
SERVICE = """
from pathlib import Path
from time import sleep
from servekit import Service

class Slow(Service):
    def stream(self, item: str):
        yield "first"
        while not Path(item).exists():
            sleep(0.01)
        yield "second"

class Sizes(Service):
    def predict(self, batch):
        return [len(body) for body in batch]
"""


def block(language):
    """Return the configuration on the page."""
    return re.search(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)[1]


def nginx(directory, socket_path, port):
    """Return the command of nginx with the page's configuration."""
    text = block("nginx").replace("/run/servekit/predict.sock", str(socket_path))
    text = text.replace("listen 80;", f"listen 127.0.0.1:{port};")
    paths = "".join(
        f"{kind}_temp_path {directory}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (directory / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {directory}/pid; error_log stderr;\n"
        f"events {{}}\nhttp {{ access_log off;\n{paths}{text}}}\n"
    )
    return [shutil.which("nginx"), "-p", directory, "-c", directory / "nginx.conf"]


def caddy(directory, socket_path, port):
    """Return the command of Caddy with the page's configuration."""
    text = block("caddyfile").replace("/run/servekit/predict.sock", str(socket_path))
    site = "http://models.example {\n"
    text = text.replace(site, f"http://models.example:{port} {{\n\tbind 127.0.0.1\n")
    (directory / "Caddyfile").write_text("{\n\tadmin off\n}\n" + text)
    return ["env", f"HOME={directory}", shutil.which("caddy"), "run", "--config",
            directory / "Caddyfile", "--adapter", "caddyfile"]  # fmt: skip


@pytest.fixture(scope="module")
def served():
    with tempfile.TemporaryDirectory(prefix="sk") as name:  # a short path: it holds a socket
        directory = Path(name)
        for model, service in (("slow", "Slow"), ("sizes", "Sizes")):
            (directory / model).mkdir()
            (directory / model / "service.py").write_text(SERVICE)
            (directory / model / "model.toml").write_text(
                f'name = "{model}"\nversion = "1.0"\nservice = "service:{service}"\n'
            )
        sock, log = directory / "predict.sock", directory / "access.jsonl"
        address = {"bind": [f"unix:{sock}", "127.0.0.1:0"], "trusted_proxies": ["unix"]}
        models = directory / "slow", directory / "sizes"
        with ServedModel(*models, **address, access_log=log) as server:
            server.wait_ready()
            server.directory, server.socket_path, server.access_log = directory, sock, log
            yield server


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def proxy(served, request, tmp_path_factory):
    """The port of a proxy in front of the server."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    port = free_port()
    directory = tmp_path_factory.mktemp(request.param)
    command = {"nginx": nginx, "caddy": caddy}[request.param](directory, served.socket_path, port)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: answers(port, process), f"{request.param} does not answer")
        yield port
    finally:
        process.terminate()
        process.wait(WAIT_S)
        sys.stdout.write((directory / "log").read_text())


def answers(port, process):
    assert process.poll() is None, "it has ended"
    with suppress(OSError):
        return send(port, "GET", "/ping")[0] == 200
    return False


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)


def send(port, method, path, body=None, **headers):
    connection = connect(port)
    try:
        connection.request(method, path, body, {"Host": "models.example", **headers})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_predictions_large_ones_too(proxy):
    body = b"x" * 9_000_000
    headers = {"Content-Type": "application/octet-stream"}

    assert send(proxy, "POST", "/sizes/predict", b"abc", **headers)[0] == 200
    status, answer = send(proxy, "POST", "/sizes/predict", body, **headers)
    assert (status, json.loads(answer)["prediction"]) == (200, len(body))


def test_the_server_knows_the_client(proxy, served):
    headers = {"Content-Type": "application/json", "X-Forwarded-For": "203.0.113.5"}
    send(proxy, "POST", "/sizes/predict", b'"abc"', **headers)
    lines = served.access_log.read_text
    wait_until(lambda: '"/sizes/predict"' in lines(), "a line in the access log")

    found = [json.loads(line) for line in lines().splitlines()]
    peers = {line["peer"] for line in found if line["path"] == "/sizes/predict"}
    assert peers == {"127.0.0.1"}  # not what the client has written into the header


def test_outputs_of_a_stream_arrive_as_they_are_made(proxy, tmp_path):
    go_on = tmp_path / "go on"
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    connection = connect(proxy)
    try:
        connection.request(
            *("POST", "/slow/predict", json.dumps(str(go_on)).encode()),
            headers={"Host": "models.example", **headers},
        )
        response = connection.getresponse()
        assert response.readline() == b'data: "first"\n'
        go_on.touch()
        assert b'data: "second"' in response.read()
    finally:
        connection.close()
