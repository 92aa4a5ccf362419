# SPDX-License-Identifier: Apache-2.0
"""Several addresses, Unix sockets, sockets that systemd passes, and what systemd is told."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import trustme

from servekit.extension import UnixConnection
from tests.waiting import wait_until

from .conftest import BIN, WAIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
MODEL = Path(__file__).parents[1] / "benchmarks" / "models" / "sum"
#: gives a server the listening socket of a descriptor as systemd does
AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture
def directory():
    """A short path: those of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="sk") as path:
        yield Path(path)


def predict(connection) -> object:
    try:
        connection.request(
            "POST", "/sum/predict", b'{"x": [1, 2]}', {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return json.loads(answer.read())["prediction"]
    finally:
        connection.close()


def start(directory, *arguments, **environment):
    """Start a server whose log is JSON; return the process and its first line on stdout."""
    process = subprocess.Popen(
        [BIN / "servekit", "start", MODEL, "--log-format", "json", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=os.environ | {"SERVEKIT_CACHE_DIR": str(directory / "cache")} | environment,
    )  # fmt: skip
    return process, json.loads(process.stdout.readline())


def end(process) -> int:
    process.terminate()
    try:
        return process.wait(WAIT_S)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("front_ends", [1, 2])
def test_two_addresses_and_a_unix_socket_answer_and_outlive_a_reload(directory, front_ends):
    path = directory / "predict.sock"
    binds = ["127.0.0.1:0", f"unix:{path}", "127.0.0.1:0"]
    process, serving = start(
        directory, "--bind", *binds, "--front-ends", front_ends, "--socket-mode", "600"
    )
    try:
        ports = [int(url.rpartition(":")[2]) for url in serving["addresses"] if "http" in url]

        def ask():
            tcp = [http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S) for port in ports]
            return [predict(each) for each in (*tcp, UnixConnection(path, WAIT_S))]

        before, mode = ask(), path.stat().st_mode & 0o777
        process.send_signal(signal.SIGHUP)
        during = [ask() for _ in range(20)]
    finally:
        status = end(process)

    assert (len(set(ports)), before, mode) == (2, [3, 3, 3], 0o600)
    assert during == [[3, 3, 3]] * 20
    assert serving["addresses"][1] == f"unix:{path}"
    assert serving["url"] == serving["addresses"][0]
    assert (status, path.exists()) == (0, False)


def test_a_stale_socket_is_replaced_and_one_in_use_is_not(directory):
    path = directory / "predict.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    process, serving = start(directory, "--bind", f"unix:{path}")
    try:
        answer = predict(UnixConnection(path, WAIT_S))
        second = subprocess.run(
            [BIN / "servekit", "start", MODEL, "--bind", f"unix:{path}"],
            capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
        still = predict(UnixConnection(path, WAIT_S))
    finally:
        end(process)

    assert (answer, still, serving["url"]) == (3, 3, f"unix:{path}")
    assert (second.returncode, second.stderr) == (3, f"servekit: bind: unix:{path}: is in use\n")


def test_tls_is_for_tcp_and_the_unix_socket_is_guarded_by_its_mode(directory):
    authority = trustme.CA()
    pem = directory / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pem))
    path = directory / "predict.sock"
    process, serving = start(
        directory, "--bind", "127.0.0.1:0", f"unix:{path}", "--tls-certificate", pem
    )
    try:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        port = int(serving["url"].rpartition(":")[2])
        client = http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT_S, context=context)
        answers = predict(client), predict(UnixConnection(path, WAIT_S))
    finally:
        end(process)

    assert (answers, serving["url"][:6]) == ((3, 3), "https:")


def test_a_socket_of_systemd_is_served_and_left_to_systemd(directory):
    path = directory / "passed.sock"
    with socket.socket(socket.AF_UNIX) as passed:
        passed.bind(str(path))
        passed.listen()
        command = [BIN / "servekit", "start", MODEL, "--bind", "systemd", "--log-format", "json"]
        process = subprocess.Popen(
            [sys.executable, "-c", AS_SYSTEMD, str(passed.fileno()), *map(str, command)],
            pass_fds=[passed.fileno()], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            serving = json.loads(process.stdout.readline())
            answer = predict(UnixConnection(path, WAIT_S))
        finally:
            status = end(process)

    assert (answer, serving["addresses"]) == (3, [f"unix:{path}"])
    assert (status, path.exists()) == (0, True)


class Manager:
    """Receives what a service tells systemd."""

    def __init__(self, path):
        self.heard: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while message := self._socket.recv(4096):
            self.heard.append(message.decode())

    def wait_for(self, beginning, count=1):
        wait_until(
            lambda: sum(message.startswith(beginning) for message in self.heard) >= count,
            f"{beginning} {count} times in {self.heard}",
        )


def test_systemd_is_told_of_start_reload_and_end(directory):
    manager = Manager(directory / "notify")
    process, serving = start(
        directory, "--port", "0",
        NOTIFY_SOCKET=str(directory / "notify"), WATCHDOG_USEC="200000",
    )  # fmt: skip
    manager.wait_for("READY=1")
    manager.wait_for("WATCHDOG=1", count=3)
    process.send_signal(signal.SIGHUP)
    manager.wait_for("READY=1", count=2)
    end(process)
    manager.wait_for("STOPPING=1")
    states = [message for message in manager.heard if not message.startswith("WATCHDOG")]

    assert states[0] == f"READY=1\nSTATUS=serving sum/1.0 at {serving['url']}"
    assert states[1].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert states[2:] == ["READY=1", "STOPPING=1\nSTATUS=stopping"]
