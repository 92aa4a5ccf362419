# SPDX-License-Identifier: Apache-2.0
"""Management from outside: a private socket always, TCP with a token only."""

import contextlib
import json
import os
import re
import signal
import socket
import stat
from pathlib import Path

import pytest

from servekit.system.unix_http import UnixConnection
from tests.processes import is_alive
from tests.waiting import wait_until

from .conftest import WAIT_S, command_of

MODELS = Path(__file__).parent / "models"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    """Serve with management on TCP, and a short run directory."""
    directory = tmp_path_factory.mktemp("tokens")
    for area in ("predict", "manage"):
        (directory / area).write_text(f"{area}-token\n")
        (directory / area).chmod(0o600)
    server = serve(
        "--models", MODELS / "slow", "--manage", "127.0.0.1:0",
        "--predict-token-file", directory / "predict", "--manage-token-file", directory / "manage",
    )  # fmt: skip
    line = server.wait_for("managed at")
    server.manage_port, server.path = re.search(
        r"managed at http://[^:]+:(\d+) and (\S+)", line
    ).groups()
    return server


def ask(sock: socket.socket, path: str, *headers: str, method: str = "GET"):
    """Return status, headers and body of one request; closes *sock*."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    with sock:
        sock.settimeout(WAIT_S)
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body


def private(server) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(server.path))
    return sock


def over_tcp(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.manage_port)))


def test_private_socket_is_for_our_user_alone(server):
    path = Path(server.path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.stat().st_uid == os.getuid()


def test_private_socket_shows_models_and_their_workers(server):
    def is_ready():
        return json.loads(ask(private(server), "/models/slow")[2])["is_ready"]

    wait_until(is_ready, "the front-end has reached the worker")
    status, _, body = ask(private(server), "/models/slow")
    model = json.loads(body)

    assert status == 200
    assert [replica["pid"] for replica in model["replicas"]] == server.workers()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/models", 200),
        ("/crashes", 200),
        ("/ping", 200),
        ("/models/no", 404),
        ("/slow/predict", 404),
    ],
)
def test_routes_of_the_private_socket(server, path, status):
    assert ask(private(server), path)[0] == status


TOKENS = {
    "none": ([], 401),
    "management's": (["Authorization: Bearer manage-token"], 200),
    "predictions'": (["Authorization: Bearer predict-token"], 403),
    "another": (["Authorization: Bearer manage-toke"], 401),
}


@pytest.mark.parametrize(("headers", "status"), TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("path", ["/models", "/ping", "/"])
def test_tcp_needs_its_token_for_everything(server, path, headers, status):
    got, head, _ = ask(over_tcp(server), path, *headers)

    assert got == status
    assert ("WWW-Authenticate: Bearer" in head) is (status == 401)


def test_tcp_head_without_a_token_is_refused(server):
    assert ask(over_tcp(server), "/models", method="HEAD")[0] == 401


def test_a_wrong_token_is_logged_once(server):
    for _ in range(3):
        assert ask(over_tcp(server), "/models", "Authorization: Bearer guess")[0] == 401
    server.wait_for("management: 127.0.0.1 is refused")

    assert server.output.count("management: 127.0.0.1 is refused") == 1


def test_main_listener_manages_nothing(server):
    sock = socket.create_connection(("127.0.0.1", server.port))

    assert ask(sock, "/models", "Authorization: Bearer manage-token")[0] == 404


def test_crash_is_reported(server):
    os.kill(server.workers()[0], signal.SIGKILL)

    def reports():
        return json.loads(ask(private(server), "/crashes")[2])["crashes"]

    wait_until(lambda: [each["model"] for each in reports()] == ["slow"], "the crash is reported")


def test_reload_is_what_a_hangup_does(server):
    assert ask(private(server), "/reload", method="POST")[0] == 202
    server.wait_for("reloading")
    wait_until(lambda: ask(private(server), "/models")[0] == 200, "management goes on")


@pytest.mark.parametrize("address", ["127.0.0.1:0", "0.0.0.0:0", "localhost:0"])
def test_tcp_without_a_token_does_not_start(serve, address):
    server = serve("--models", MODELS / "slow", "--manage", address, ready=False)

    assert server.process.wait(WAIT_S) == 3
    assert server.wait_for("manage").startswith("servekit: manage: needs manage_token_file")


def test_tokens_are_read_again_at_a_hangup_and_a_bad_file_changes_nothing(serve, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("old")
    server = serve("--models", MODELS / "points", "--predict-token-file", tokens)

    def status(token):
        return server.post("/points/predict", b'{"x": 1}', Authorization=f"Bearer {token}")[0]

    assert (status("old"), status("new")) == (200, 401)
    before = front_ends(server)[1:]  # the first is the parent of the others
    tokens.write_text("new")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: not any(map(is_alive, before)), "the old front-end has gone")
    assert (status("old"), status("new")) == (401, 200)
    tokens.write_text("no token")
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("line 1: not a token")

    assert status("new") == 200


def test_server_without_a_required_plugin_does_not_start(serve):
    server = serve("--models", MODELS / "slow", "--require-plugins", "nope", ready=False)

    assert server.process.wait(WAIT_S) == 3
    server.wait_for("plugin nope is required and not installed")


def test_front_end_that_is_killed_leaves_management_where_it_was(server):
    for pid in front_ends(server):
        with contextlib.suppress(ProcessLookupError):  # it went with the one that it is a child of
            os.kill(pid, signal.SIGKILL)

    assert ask(private(server), "/ping/live")[0] == 200


def front_ends(server):
    return [pid for pid in server.tree() if b"servekit.frontend" in command_of(pid)]


def with_private_socket(serve, tmp_path_factory):
    place = tmp_path_factory.mktemp("r")  # short: the paths of sockets are limited
    server = serve("--models", MODELS / "points", "--run-dir", place)
    (server.path,) = place.glob("servekit-run-*/manage.sock")
    return server


def change(server, method, path, body=None):
    """Return status and document of a request with a JSON body, over the private socket."""
    connection = UnixConnection(server.path, 90.0)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), dict(answer.headers)
    finally:
        connection.close()


def test_models_change_over_http_while_the_server_runs(serve, tmp_path_factory):
    server = with_private_socket(serve, tmp_path_factory)
    second = {"source": str(MODELS / "points"), "model": "second"}

    assert change(server, "POST", "/models?wait=60", second)[0] == 200
    assert server.post("/second/predict", b'{"x": 1}')[0] == 200
    assert change(server, "POST", "/models?wait=60", {"source": "/no/such"})[0] == 422
    shown = {each["name"]: each for each in change(server, "GET", "/models/second")[1]["settings"]}
    assert (shown["path"]["value"], shown["path"]["source"]) == (second["source"], "run time")
    status, row, headers = change(server, "PUT", "/models/second", {"replicas": 2})
    assert (status, headers["Location"]) == (202, f"/operations/{row['id']}")
    assert change(server, "GET", f"{headers['Location']}?wait=60")[1]["state"] == "done"
    assert len(change(server, "GET", "/models/second")[1]["replicas"]) == 2
    assert change(server, "DELETE", "/models/second?wait=60")[0] == 200
    assert server.post("/second/predict", b'{"x": 1}')[0] == 404
    assert [each["state"] for each in change(server, "GET", "/operations")[1]["operations"]] == [
        "done", "failed", "done", "done",
    ]  # fmt: skip


@pytest.mark.parametrize("framing", ["Content-Length", "chunked"])
def test_clients_that_wait_for_100_continue_are_asked_for_the_body(
    serve, tmp_path_factory, framing
):
    server = with_private_socket(serve, tmp_path_factory)
    body = json.dumps({"source": "/no/such/place"}).encode()
    length = f"Content-Length: {len(body)}"
    if framing == "chunked":
        length, body = "Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    lines = [
        "POST /models?wait=60 HTTP/1.1",
        "Host: a",
        "Expect: 100-continue",
        "Connection: close",
        "Content-Type: application/json",
    ]
    with private(server) as sock:
        sock.settimeout(WAIT_S)
        sock.sendall("\r\n".join([*lines, length, "", ""]).encode())
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        answer = b"".join(iter(lambda: sock.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 422")
    assert b"/no/such/place" in answer


def test_an_operation_outlives_the_front_end_that_began_it(serve, tmp_path_factory):
    server = with_private_socket(serve, tmp_path_factory)
    slow = {"source": str(MODELS / "slow"), "model": "other"}
    _, row, _ = change(server, "POST", "/models", slow)
    for pid in front_ends(server):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    assert change(server, "GET", f"/operations/{row['id']}?wait=60")[1]["state"] == "done"
