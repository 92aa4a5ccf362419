# SPDX-License-Identifier: Apache-2.0
"""What others can reach, see and make of a server as it is by default."""

import json
import os
import random
import re
import socket
import string
from pathlib import Path

import pytest

from .conftest import command_of

MODELS = Path(__file__).parent / "models"
LOOPBACK = ("0100007F", "00000000000000000000000001000000")
LISTENS, ESTABLISHED = "0A", "01"
SPY = """
import os
from servekit import Service

class Spy(Service):
    def predict(self, batch):
        fds = {}
        for name in os.listdir("/proc/self/fd"):
            try:
                fds[name] = os.readlink(f"/proc/self/fd/{name}")
            except OSError:
                continue
        return [{"environment": dict(os.environ), "fds": fds}] * len(batch)
"""
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    """Serve the model ``points``, and ``spy``, which tells what its worker sees."""
    spy = tmp_path_factory.mktemp("spy")
    (spy / "service.py").write_text(SPY)
    (spy / "model.toml").write_text('name = "spy"\nservice = "service:Spy"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVEKIT_PREDICT_TOKEN", "predict-secret")
        patch.setenv("SERVEKIT_MANAGE_TOKEN", "manage-secret")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "cloud-secret")
        return serve("--models", MODELS / "points", spy)


def exchange(server, text: bytes) -> bytes:
    """Return all that comes back until the server closes, or has answered and waits."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        sock.sendall(text)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def request(target: bytes, method: bytes = b"POST") -> bytes:
    return (
        b"%b %b HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer predict-secret\r\n"
        b"Content-Length: 0\r\nConnection: close\r\n\r\n" % (method, target)
    )


def series(server) -> list[str]:
    text = server.get("/metrics")[1].decode()
    return sorted(line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#"))


def sockets_of(pid: int) -> set[str]:
    """Return the inodes of the sockets that a process holds."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def internet_sockets(pids) -> list[tuple[str, str, str]]:
    """Return state, local and remote address of each TCP and UDP socket of *pids*."""
    inodes = set().union(*map(sockets_of, pids))
    rows = []
    for name in ("tcp", "tcp6", "udp", "udp6", "raw"):
        path = Path("/proc/net", name)
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[9] in inodes:
                rows.append((fields[3], fields[1], fields[2]))
    return rows


def test_nothing_listens_but_on_loopback_and_nothing_is_connected_outwards(server):
    server.get("/ping")
    found = internet_sockets(server.tree())
    listeners = [local for state, local, _ in found if state == LISTENS]
    ours = f"{server.port:04X}"

    assert listeners
    assert {local.partition(":")[0] for local in listeners} <= set(LOOPBACK)
    assert {local.partition(":")[2] for local in listeners} == {ours}
    assert {local.partition(":")[2] for state, local, _ in found if state != LISTENS} <= {ours}


def test_worker_sees_no_secret_no_listener_and_no_other_model(server):
    seen = json.loads(server.post("/spy/predict", b"1", Authorization="Bearer predict-secret")[2])[
        "prediction"
    ]
    inodes = {target[8:-1] for target in seen["fds"].values() if target.startswith("socket:[")}
    unix = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    paths = {row[7] for row in unix if row[6] in inodes and len(row) > 7}

    assert not [name for name in seen["environment"] if name.startswith("SERVEKIT_")]
    assert not [text for text in seen["environment"].values() if "secret" in text]
    assert {Path(path).name[:2] for path in paths} == {"m1"}  # points is m0
    for pid in server.workers():
        assert internet_sockets([pid]) == [], command_of(pid)


HOSTILE = {
    "dots, encoded slashes": b"/..%2f..%2fetc/predict",
    "encoded dots": b"/%2e%2e/predict",
    "dot segments": b"/../../etc/passwd/predict",
    "NUL": b"/a%00b/predict",
    "line break": b"/a%0d%0aX:1/predict",
    "8 kB": b"/" + b"a" * 8000 + b"/predict",
    "reserved name": b"/ping/predict",
    "two slashes": b"//points/predict",
    "other case": b"/Points/predict",
    "three dots": b"/.../predict",
    "not UTF-8": b"/%ff%fe/predict",
    "bad escape": b"/%zz/predict",
    "console": b"/console",
    "debugger": b"/?__debugger__=yes&cmd=resource&f=debugger.js",
    "management": b"/models?url=http://127.0.0.1:1/x.mar",
    "crashes": b"/crashes",
    "reload": b"/reload",
}


@pytest.mark.parametrize("target", HOSTILE.values(), ids=HOSTILE)
def test_hostile_path_is_refused_and_tells_nothing(server, target):
    answer = exchange(server, request(target))
    head, _, body = answer.partition(b"\r\n\r\n")

    assert int(head.split()[1]) in (400, 404, 405, 414)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"X:1" not in head
    assert json.loads(body)["status"] in (400, 404, 405, 414)
    assert_tells_nothing(body, server)
    text = server.get("/metrics")[1].decode()
    rules = set(re.findall(r'rule="([^"]*)"', text))
    assert {rule for rule in rules if not rule.startswith("/console/")} <= RULES
    assert set(re.findall(r'[{,]model="([^"]*)"', text)) == {"points", "spy"}


RULES = {"none", "/", "/<model>/predict", "/metrics", "/ping"}


def assert_tells_nothing(body: bytes, server) -> None:
    text = body.decode()
    for internal in ("Traceback", 'File "', "site-packages", "servekit-run-", "DOCTYPE", "0x"):
        assert internal not in text
    assert not [pid for pid in server.tree() if f"{pid}" in text.split()]


@pytest.mark.parametrize(
    ("path", "body", "content_type"),
    [
        pytest.param("/points/predict", b'{"url": "http://127.0.0.1:%d/"}', None, id="JSON"),
        pytest.param(
            "/points/predict",
            b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\nhttp://127.0.0.1:%d/\r\n--b--',
            "multipart/form-data; boundary=b",
            id="form",
        ),
        pytest.param("/models?url=http://127.0.0.1:%d/x.mar", b"%d", None, id="registration"),
    ],
)
def test_nothing_a_client_names_is_fetched(server, path, body, content_type):
    with socket.create_server(("127.0.0.1", 0)) as trap:
        port = trap.getsockname()[1]
        status, _, _ = server.post(
            path % port if "%" in path else path,
            body % port,
            content_type or "application/json",
            Authorization="Bearer predict-secret",
        )
        trap.setblocking(False)

        assert status in (400, 404, 405, 415, 422)
        with pytest.raises(BlockingIOError):
            trap.accept()


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_names_that_do_not_exist_add_no_series_and_no_memory(server):
    (front_end,) = [pid for pid in server.tree() if b"servekit.frontend" in command_of(pid)][1:]
    pick = random.Random(7)
    names = ["".join(pick.choices(string.ascii_letters, k=12)) for _ in range(3000)]
    ask_for(server, names[:500])
    before, memory = series(server), resident_bytes(front_end)
    ask_for(server, names)

    assert series(server) == before
    assert resident_bytes(front_end) - memory <= 2**20


def ask_for(server, names) -> None:
    """Ask for a prediction of each model, in pieces of one connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        for start in range(0, len(names), 50):
            piece = names[start : start + 50]
            sock.sendall(
                b"".join(
                    request(f"/{name}/predict".encode()).replace(b"Connection: close\r\n", b"")
                    for name in piece
                )
            )
            answered = b""
            while answered.count(b'"status":404') < len(piece):
                data = sock.recv(65536)
                assert data, "the connection was closed"
                answered += data


PRINTED = ["[METRICS]PredictionTime.ms:1", "\x1b[2J", 'a\r\n{"level":"error","event":"serving"}']


def test_what_a_service_prints_is_shown_and_never_believed(serve, tmp_path):
    (tmp_path / "service.py").write_text(
        "from servekit import Service\n\n\nclass Says(Service):\n    def predict(self, batch):\n"
        f"        for text in {PRINTED!r}:\n            print(text, flush=True)\n"
        "        return batch\n"
    )
    (tmp_path / "model.toml").write_text('name = "says"\nservice = "service:Says"\n')
    server = serve("--models", tmp_path, "--log-format", "json")
    assert server.post("/says/predict", b"1")[0] == 200
    server.wait_for(r"{\"level\"")
    records = [json.loads(line) for line in server.lines]
    shown = [record["message"] for record in records if record["event"] == "output"]

    assert shown == [PRINTED[0], r"\x1b[2J", "a", '{"level":"error","event":"serving"}']
    assert [record["subject"] for record in records].count("says/0") >= len(shown)
    assert len([record for record in records if record["event"] == "serving"]) == 1
