# SPDX-License-Identifier: Apache-2.0
"""HAProxy in front of a deployment whose servers come and go."""

import shutil
import signal
import socket
import subprocess
import sys
import threading
from time import monotonic

import pytest

from .load import Load

pytest.importorskip("ray", reason="ray is not installed")

HAPROXY = shutil.which("haproxy")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # those of Ray
    pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed"),
]
WAIT_S = 60


@pytest.fixture
def proxied(deployments, greeter, cluster, tmp_path):
    """Yield a deployment, the URL of HAProxy, and the command that tells HAProxy of its servers."""
    deployment = deployments(greeter(), nodes=2, cpus=1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path, pid = tmp_path / "haproxy.cfg", tmp_path / "pid"
    arguments = ["haproxy", "--address", cluster.address, "-o", path, "--follow"]
    arguments += ["--listen", f"127.0.0.1:{port}"]
    arguments += ["--on-change", f"test ! -e {pid} || kill -USR2 $(cat {pid})"]
    follower = subprocess.Popen(
        [sys.executable, "-m", "servekit", "ray", "ingress", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
    )
    line = follower.stderr.readline()
    assert line.startswith(f"{path}: "), line
    proxy = subprocess.Popen([HAPROXY, "-W", "-f", str(path)], stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        pid.write_text(str(proxy.pid))  # a signal that comes before HAProxy is ready would end it
        proxy.send_signal(signal.SIGUSR2)  # for changes until now
        yield deployment, f"http://127.0.0.1:{port}", follower
    finally:
        for process in (follower, proxy):
            process.terminate()
            process.communicate(timeout=WAIT_S)


def wait_for_port(port):
    until, pause = monotonic() + WAIT_S, threading.Event()
    while True:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert monotonic() < until, "HAProxy does not listen"
        pause.wait(0.05)


def test_servers_come_and_go_behind_haproxy_and_no_request_fails(proxied):
    deployment, url, follower = proxied
    with Load(deployment, rate=100, proxy=url) as load:
        for number in (3, 1):
            deployment.scale(number)
            deployment.wait(120)
            line = follower.stderr.readline()
            while line.count(", ") != number - 1:
                line = follower.stderr.readline()

    assert len(load.answers) > 100
    assert load.errors == []
