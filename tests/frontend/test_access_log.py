# SPDX-License-Identifier: Apache-2.0
"""The access log: what an answer leaves in it."""

import errno
import http.client
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from threading import Event
from time import monotonic

import pytest

from servekit.errors import StartupError
from servekit.frontend.middleware.access_log import AccessLog, open_access_log
from servekit.settings import Settings
from servekit.system.appending import reopen

from .clients import Clients, forget_batches, hold_one
from .conftest import WAIT_S, FrontEndUnderTest, post, receive


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """One front-end whose answers are logged."""
    directory = tmp_path_factory.mktemp("run")
    file = str(directory / "access.jsonl")
    front_end = FrontEndUnderTest(directory, access_log=file, max_body=1000, compression=("gzip",))
    yield front_end
    assert front_end.stop() == 0


def lines(front_end, at_least):
    """Wait for so many lines in all, and return those since the last call."""
    seen = getattr(front_end, "lines_seen", 0)
    deadline = monotonic() + WAIT_S
    while True:
        with open(front_end.settings.access_log, encoding="utf-8") as file:  # noqa: PTH123
            found = [json.loads(line) for line in file if line.endswith("\n")]
        if len(found) >= seen + at_least:
            front_end.lines_seen = len(found)
            return found[seen:]
        assert monotonic() < deadline, f"{at_least} lines more: {found[seen:]}"
        Event().wait(0.02)


TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    ("field", "members"),
    [
        pytest.param(f"traceparent: 00-{TRACE}-b7ad6b7169203331-00", {"trace_id": TRACE}, id="one"),
        pytest.param("traceparent: nonsense", {}, id="malformed"),
        pytest.param("X-Other: 1", {}, id="none"),
    ],
)
def test_a_line_names_the_trace(logged, field, members):
    with logged.connect() as client:
        client.sendall(post(b"[1]", field))
        receive(client)
    (line,) = lines(logged, 1)

    assert {name: value for name, value in line.items() if name == "trace_id"} == members


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        pytest.param(
            post(b"[1]", "X-Request-Id: mine"), ("POST", "/echo/predict", 200, 3, "mine"),
            id="a prediction",
        ),
        pytest.param(
            post(b"[1]" * 300, "X-Request-Id: big", "Accept-Encoding: gzip"),
            ("POST", "/echo/predict", 200, 900, "big"), id="a compressed one, once",
        ),
        pytest.param(
            b"GET /nothing?token=secret HTTP/1.1\r\nHost: a\r\nX-Request-Id: b\r\n\r\n",
            ("GET", "/nothing", 404, ..., "b"), id="another route, its query left out",
        ),
        pytest.param(
            post(b"", path="/other/predict"), ("POST", "/other/predict", 404, ..., ...),
            id="a model that is not there",
        ),
        pytest.param(
            post(b"0" * 1001), ("", "/echo/predict", 413, None, ...),
            id="a body that is refused before it has come",
        ),
        pytest.param(b"nonsense\r\n\r\n", ("", "", 400, None, ...), id="no request at all"),
        pytest.param(
            b'GET /"\\ HTTP/1.1\r\nHost: a\r\n\r\n', (..., ..., ..., ..., ...), id="quotes"
        ),
    ],
)  # fmt: skip
def test_an_answer_is_one_line(logged, request_bytes, expected):
    with logged.connect() as sock:
        sock.sendall(request_bytes)
        status, _, _ = receive(sock)
    (line,) = lines(logged, 1)
    found = [line[name] for name in ("method", "path", "status", "bytes", "request_id")]

    assert [f for f, e in zip(found, expected, strict=True) if e is not ...] == [
        e for e in expected if e is not ...
    ]
    assert (line["status"], line["peer"]) == (status, "127.0.0.1")
    assert line["duration_ms"] is None or 0 <= line["duration_ms"] < WAIT_S * 1e3


def test_each_request_of_a_pipeline_is_a_line(logged):
    with logged.connect() as sock:
        sock.sendall(post(b"[1]", "X-Request-Id: a") + post(b"[2]", "X-Request-Id: b"))
        receive(sock)

    assert [line["request_id"] for line in lines(logged, 2)] == ["a", "b"]


def test_a_client_that_leaves_is_a_line_without_a_status(logged):
    forget_batches(logged.worker)
    with ExitStack() as stack:
        clients = Clients(logged, stack)
        first = hold_one(logged, clients)
        clients.send(b"left").close()
        (line,) = lines(logged, 1)
        logged.worker.is_holding = False
        logged.worker.release()
        receive(first)

    assert (line["path"], line["status"]) == ("/echo/predict", None)


def test_what_waits_is_written_at_the_end(start, tmp_path):
    front_end = start(access_log=str(tmp_path / "access.jsonl"))
    with front_end.connect() as sock:
        sock.sendall(post(b"[1]"))
        receive(sock)
    front_end.stop()

    assert (tmp_path / "access.jsonl").read_text().count("\n") == 1


def test_a_file_that_cannot_be_opened_ends_the_start(tmp_path):
    with pytest.raises(StartupError, match=r"access_log .*: Is a directory"):
        open_access_log(Settings(access_log=str(tmp_path)))


# ---------------------------------------------------------------- where it is written


def write_line(path):
    log = open_access_log(Settings(access_log=str(path)))
    log.add(path="/x")
    log.write()
    log.close()


is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")


@is_root
@pytest.mark.parametrize("is_inner", [False, True])
def test_a_link_of_another_user_is_not_followed(tmp_path, is_inner):
    victim, way = tmp_path / "victim", tmp_path / "way"
    victim.mkdir()
    way.symlink_to(victim if is_inner else victim / "file")
    os.lchown(way, 65534, 65534)
    with pytest.raises(StartupError, match="a link of user 65534 is on the way"):
        write_line(way / "file" if is_inner else way)

    assert list(victim.iterdir()) == []


@is_root
def test_a_file_that_another_user_has_left_is_not_written(tmp_path):
    left = tmp_path / "left"
    left.touch()
    os.chown(left, 65534, 65534)
    with pytest.raises(StartupError, match="it belongs to user 65534"):
        write_line(left)

    assert left.read_bytes() == b""


@pytest.mark.parametrize(
    "target", ["real/file", "../{name}/real/file", "{path}/real/file", "chain", "real/./file"]
)
def test_our_own_links_are_followed(tmp_path, target):
    (tmp_path / "real").mkdir()
    (tmp_path / "chain").symlink_to("real/file")
    (tmp_path / "way").symlink_to(target.format(name=tmp_path.name, path=tmp_path))
    write_line(tmp_path / "way")

    assert json.loads((tmp_path / "real" / "file").read_text())["path"] == "/x"


def test_links_in_a_circle_end_the_start(tmp_path):
    (tmp_path / "way").symlink_to("way")
    with pytest.raises(StartupError, match="Too many levels of symbolic links"):
        write_line(tmp_path / "way")


def test_a_pipe_without_a_reader_ends_the_start(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StartupError, match="No such device or address"):
        write_line(tmp_path / "pipe")


def test_a_reader_that_lags_holds_up_nobody_and_gets_whole_lines():
    reader, writer = os.pipe()
    log = AccessLog(reopen(writer))
    os.close(writer)
    for number in range(100_000):
        log.add(number=number)
    log.write()
    text = b""
    os.set_blocking(reader, False)
    while True:
        try:
            piece = os.read(reader, 1 << 20)
        except BlockingIOError:
            log.add(number=-1)
            log.write()
            piece = b"" if b'"number":-1' in text else os.read(reader, 1 << 20)
        if not piece:
            break
        text += piece
    log.close()
    os.close(reader)
    numbers = [json.loads(line)["number"] for line in text.splitlines()]

    assert numbers[:100] == list(range(100))
    assert 1000 < len(numbers) < 100_000


def test_a_disk_that_fills_within_a_line_parts_no_other_line(tmp_path, monkeypatch):
    log = open_access_log(Settings(access_log=str(tmp_path / "log")))
    real_write, room = os.write, [30, OSError(errno.ENOSPC, "full")]

    def write(descriptor, content):
        step = room.pop(0) if room else len(content)
        if isinstance(step, OSError):
            raise step
        return real_write(descriptor, content[:step])

    monkeypatch.setattr(os, "write", write)
    for number in (1, 2):
        log.add(number=number)
        log.write()
    lines = (tmp_path / "log").read_text().splitlines()

    assert len(lines[0]) == 30
    assert json.loads(lines[-1])["number"] == 2


def test_standard_output_of_the_server_is_written(tmp_path):
    model = tmp_path / "m"
    model.mkdir()
    (model / "model.toml").write_text('name = "m"\nservice = "service:S"\n')
    (model / "service.py").write_text(
        "from servekit import Service\n"
        "class S(Service):\n    def predict(self, batch):\n        return batch\n"
    )
    command = [sys.executable, "-m", "servekit.cli", "start", str(model), "--port", "0"]
    server = subprocess.Popen(
        [*command, "--access-log", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        first = server.stdout.readline()
        address = first.partition("http://")[2].split()[0]
        connection = http.client.HTTPConnection(address, timeout=WAIT_S)
        connection.request("GET", "/ping/live")
        connection.getresponse().read()
        connection.close()
        line = json.loads(server.stdout.readline())
    finally:
        server.terminate()
        server.wait(WAIT_S)
        server.stdout.close()

    assert (line["path"], line["status"]) == ("/ping/live", 200)
    assert not (tmp_path / "-").exists()
