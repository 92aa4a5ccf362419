# SPDX-License-Identifier: Apache-2.0
"""Calls of gRPC through a proxy, while a node drains."""

import threading
from collections import Counter
from pathlib import Path

import pytest

import servekit
from tests.processes import free_port
from tests.waiting import wait_until

from .conftest import DRAIN_DELAY_S, WAIT_S, is_open, proxy_param

np = pytest.importorskip("numpy")
client = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
SERVICE = """
from servekit import Service

class Sum(Service):
    def predict(self, batch):
        return {"sum": batch["x"].sum(axis=1)}
"""
MODEL = """
name = "sum"
version = "1.0"
service = "service:Sum"

[signature]
inputs = [{ name = "x", dtype = "float32", shape = [4] }]
outputs = [{ name = "sum", dtype = "float32", shape = [] }]
"""


@pytest.fixture
def start_grpc_node(tmp_path):
    """Return what starts a node whose gRPC is at a given address."""
    path, nodes = Path(tmp_path / "sum"), []
    path.mkdir()
    (path / "service.py").write_text(SERVICE)
    (path / "model.toml").write_text(MODEL)

    def start(host, grpc_port):
        node = servekit.serve(
            {"sum": path},
            block=False,
            host=host,
            port=0,
            replicas=1,
            drain_delay=DRAIN_DELAY_S,
            plugin=[f"oip.grpc={host}:{grpc_port}"],
        )
        nodes.append(node)
        return node

    yield start
    for node in nodes:
        node.stop()


class Callers:
    """Threads that share one connection, and count what their calls return."""

    def __init__(self, address, number=4):
        self.answers = Counter()
        self._is_over = threading.Event()
        self._client = client.InferenceServerClient(address)
        self._threads = [threading.Thread(target=self._call) for _ in range(number)]
        for thread in self._threads:
            thread.start()

    def _call(self):
        given = client.InferInput("x", [1, 4], "FP32")
        given.set_data_from_numpy(np.ones((1, 4), "float32"))
        while not self._is_over.wait(0.02):
            try:
                found = self._client.infer("sum", [given], client_timeout=WAIT_S).as_numpy("sum")
                self.answers[found.item()] += 1
            except client.InferenceServerException as error:
                self.answers[str(error)] += 1

    def more(self, number):
        wanted = self.answers.total() + number
        wait_until(lambda: self.answers.total() >= wanted, f"{number} more calls")

    def end(self):
        self._is_over.set()
        for thread in self._threads:
            thread.join(WAIT_S)
        self._client.close()
        return dict(self.answers)


@pytest.mark.parametrize("proxy", [proxy_param("haproxy"), proxy_param("envoy")])
def test_a_node_that_drains_costs_no_call(proxy, start_grpc_node, start_proxy):
    port = free_port()
    leaves, stays = (start_grpc_node(host, port) for host in ("127.0.0.2", "127.0.0.3"))
    start_proxy(proxy, "--servers", leaves.url, stays.url, "--grpc", str(port))
    callers = Callers(f"127.0.0.1:{port}")
    callers.more(50)
    threading.Thread(target=leaves.stop).start()
    wait_until(lambda: not is_open(leaves), "the node has ended")
    callers.more(100)
    answers = callers.end()

    assert set(answers) == {4.0}, answers
