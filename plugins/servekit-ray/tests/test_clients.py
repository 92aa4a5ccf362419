# SPDX-License-Identifier: Apache-2.0
"""How clients reach the servers of a deployment: discovery, files of addresses, Ray Serve."""

import http.client
import json
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from time import monotonic

import pytest

from servekit.client import Client, FileDiscovery
from servekit.errors import StartupError

pytest.importorskip("ray", reason="ray is not installed")
from servekit_ray import RayDiscovery, deploy

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # those of Ray
]
WAIT_S = 120.0
SERVICE = """
from collections.abc import Iterator
from servekit import Service

class Sum(Service):
    def predict(self, batch):
        return [sum(each) for each in batch]

class Story(Service):
    def stream(self, text: str) -> Iterator[str]:
        import time
        from pathlib import Path
        *words, gate = text.split()
        for word in words:
            yield word
            while not Path(gate).exists():
                time.sleep(0.01)
"""
FORM = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Two archives: ``sum`` and ``story``."""
    found = []
    for name in ("sum", "story"):
        directory = tmp_path_factory.mktemp("models") / name
        directory.mkdir()
        (directory / "service.py").write_text(SERVICE)
        text = f'name = "{name}"\nversion = "1.0"\nservice = "service:{name.capitalize()}"\n'
        (directory / "model.toml").write_text(text)
        archive = directory.with_suffix(".mar")
        run("build", directory, "-o", archive)
        found.append(str(archive))
    return found


@pytest.fixture(scope="module")
def deployment(cluster, archives):
    """A server on each node."""
    found = deploy(archives, nodes=2, replicas=1, cpus=2, address=cluster.address)
    yield found
    with suppress(StartupError):  # the last test ends it
        found.down()


def command(*arguments):
    return [sys.executable, "-m", "servekit", *map(str, arguments)]


def run(*arguments):
    return subprocess.run(
        command(*arguments), check=True, capture_output=True, text=True, timeout=WAIT_S
    )


def test_a_client_finds_the_servers(deployment):
    deployment.wait(WAIT_S)  # a busy server may have been withdrawn for a moment
    discovery = RayDiscovery()
    with Client(discovery) as client:
        answers = [client.raw("sum", b"[1, 2]", "application/json") for _ in range(40)]

    assert sorted(discovery.urls()) == sorted(deployment.urls())
    assert {answer.output for answer in answers} == {3}
    assert {answer.server for answer in answers} == set(deployment.urls())


def test_a_deployment_that_is_not_there_keeps_the_servers_that_are_known(cluster):
    with pytest.raises(OSError, match="no deployment called 'none'"):
        RayDiscovery("none").urls()


def test_clients_outside_the_cluster_read_a_file(cluster, deployment, tmp_path):
    path = tmp_path / "servers.json"
    run("ray", "addresses", "--address", cluster.address, "-o", path)

    assert sorted(FileDiscovery(path).urls()) == sorted(deployment.urls())


def test_addresses_are_followed(cluster, deployment, tmp_path):
    path = tmp_path / "servers.json"
    arguments = ("ray", "addresses", "--address", cluster.address, "--follow", "-o", path)
    with subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stderr.readline().startswith(f"{path}: http://")
        follower.terminate()

    assert sorted(json.loads(path.read_text())) == sorted(deployment.urls())


def test_a_proxy_gets_the_servers_of_the_deployment(cluster, deployment, tmp_path):
    path = tmp_path / "haproxy.cfg"
    run("ray", "ingress", "haproxy", "--address", cluster.address, "-o", path)

    text = path.read_text()
    assert all(f"{url.removeprefix('http://')} check" in text for url in deployment.urls())


# ------------------------------------------------------------ Ray Serve


@pytest.fixture(scope="module")
def serve_port(deployment):
    """The port of Ray Serve, whose only application passes requests to the servers."""
    serve = pytest.importorskip("ray.serve", reason="ray[serve] is not installed")
    from servekit_ray.serve import ingress

    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:  # a busy machine exceeds the minute
        patch.setattr("ray.serve._private.api.HTTP_PROXY_TIMEOUT", 300)
        serve.start(http_options={"port": port})
    serve.run(ingress({"name": "servekit"}), route_prefix="/")
    yield port
    serve.shutdown()


def ask(port, method, path, body=None, headers=FORM):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        pytest.param("POST", "/sum/predict", b"[1, 2, 3]", 200, id="a prediction"),
        pytest.param("POST", "/sum/predict", b"[1,", 400, id="a broken body"),
        pytest.param("POST", "/none/predict", b"1", 404, id="an unknown model"),
        pytest.param("GET", "/sum%2Fpredict", None, 404, id="a path with %2F"),
        pytest.param("GET", "/ping", None, 200, id="health"),
        pytest.param("GET", "/sum/predict", None, 405, id="a wrong method"),
    ],
)
def test_ray_serve_passes_on_what_the_server_answers(
    serve_port, deployment, method, path, body, status
):
    at = deployment.urls()[0].removeprefix("http://")
    host, port = at.split(":")
    direct = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)
    direct.request(method, path, body, {**FORM, "X-Request-Id": "same"})
    expected = direct.getresponse()
    content = expected.read()
    found = ask(serve_port, method, path, body, {**FORM, "X-Request-Id": "same"})
    direct.close()

    assert (found[0], found[2]) == (status, content)
    assert expected.status == status
    assert found[1]["Content-Type"] == expected.headers["Content-Type"]
    assert found[1]["Allow"] == expected.headers["Allow"]
    assert found[1].get_all("X-Request-Id") == ["same"]


def test_ray_serve_passes_a_stream_on_as_it_comes(serve_port, tmp_path):
    gate = tmp_path / "gate"  # the second word comes when we have the first
    connection = http.client.HTTPConnection("127.0.0.1", serve_port, timeout=WAIT_S)
    accepted = {**FORM, "Accept": "text/event-stream"}
    connection.request("POST", "/story/predict", json.dumps(f"a b c {gate}"), accepted)
    lines = []
    for line in connection.getresponse():
        if line.startswith(b"data: "):
            lines.append(line)
            gate.touch()
    connection.close()

    assert lines[:3] == [b'data: "a"\n', b'data: "b"\n', b'data: "c"\n']


def test_ray_serve_is_unhealthy_when_no_server_is_ready(serve_port, deployment):
    """The last test: it ends the servers."""
    from ray import serve

    def status():
        return serve.status().applications["default"].deployments["ServekitIngress"].status

    assert status() == "HEALTHY"
    deployment.down()
    deadline, pause = monotonic() + WAIT_S, threading.Event()
    while status() == "HEALTHY":
        assert monotonic() < deadline, "Ray Serve has not noticed"
        pause.wait(0.5)
