# SPDX-License-Identifier: Apache-2.0
"""Clients ask a proxy while nodes are killed, drain, and come and go."""

import http.client
import json
import os
import re
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.request import urlopen

import pytest

from tests.waiting import wait_until

from .conftest import WAIT_S, Clients, is_open, kill, proxy_param

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
PROXIES = [proxy_param("haproxy"), proxy_param("envoy")]
CLIENTS = 8
#: answers when there is a file
WAITING = """
import os, time
from servekit import Service

class Slow(Service):
    def predict(self, batch):
        while not os.path.exists("{gate}"):
            time.sleep(0.01)
        return batch
"""
HELD = re.compile(r"servekit_tasks_(waiting|running)\{")


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_node_that_drains_costs_no_request(proxy, start_node, start_proxy):
    leaves, stays = start_node(), start_node()
    clients = Clients(start_proxy(proxy, "--servers", leaves.url, stays.url).port, CLIENTS)
    clients.more(100)
    threading.Thread(target=leaves.stop).start()
    wait_until(lambda: not is_open(leaves), "the node has ended")
    clients.more(100)
    answers = clients.end()

    assert set(answers) == {200}, answers


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_node_that_is_killed_costs_only_what_it_had(proxy, start_node, start_proxy):
    dies, stays = start_node(), start_node()
    clients = Clients(start_proxy(proxy, "--servers", dies.url, stays.url).port, CLIENTS)
    clients.more(100)
    kill(dies)
    clients.more(400)
    answers = clients.end()
    lost = sum(number for status, number in answers.items() if status != 200)

    assert lost <= CLIENTS, answers


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_node_that_is_killed_costs_nothing_if_requests_may_run_twice(
    proxy, start_node, start_proxy
):
    dies, stays = start_node(), start_node()
    clients = Clients(
        start_proxy(proxy, "--servers", dies.url, stays.url, "--repeat").port, CLIENTS
    )
    clients.more(100)
    kill(dies)
    clients.more(400)
    answers = clients.end()

    assert set(answers) == {200}, answers


@pytest.mark.parametrize("proxy", PROXIES)
def test_what_a_killed_node_had_read_is_answered_by_another(
    proxy, start_node, start_proxy, model, tmp_path
):
    gate = tmp_path / "gate"
    (model / "service.py").write_text(WAITING.format(gate=str(gate)))
    dies, stays = start_node(), start_node()
    port = start_proxy(proxy, "--servers", dies.url, stays.url, "--repeat").port
    with ThreadPoolExecutor(CLIENTS) as pool:
        asked = [pool.submit(ask, port) for _ in range(CLIENTS)]
        wait_until(lambda: held(dies) + held(stays) == CLIENTS, "the nodes have all requests")
        lost = held(dies)
        kill(dies)
        wait_until(lambda: held(stays) == CLIENTS, "the other node has all requests")
        gate.touch()

    assert lost > 0
    assert [each.result() for each in asked] == [200] * CLIENTS


def ask(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("POST", "/slow/predict", "1", {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


def held(node):
    """Return how many requests *node* has read and not answered."""
    with urlopen(f"{node.url}/metrics", timeout=WAIT_S) as response:
        lines = response.read().decode().splitlines()
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if HELD.match(line))


@pytest.mark.parametrize("proxy", PROXIES)
def test_nodes_come_and_go_without_a_lost_request(proxy, start_node, start_proxy, tmp_path):
    first, second = start_node(), start_node()
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps([first.url]))
    running = start_proxy(proxy, "--servers-file", str(servers))
    reload = ["--on-change", f"kill -USR2 {running.process.pid}"] if proxy == "haproxy" else []
    follower = subprocess.Popen(
        [*running.command, "--follow", *reload], stderr=subprocess.PIPE, text=True
    )
    clients = Clients(running.port, CLIENTS)
    try:
        wait_for_line(follower, first.url)
        for now in ([first.url, second.url], [second.url], [first.url, second.url], [first.url]):
            write(servers, now)
            wait_for_line(follower, *now)
            clients.more(150)
        threading.Thread(target=second.stop).start()
        wait_until(lambda: not is_open(second), "the node has ended")
        clients.more(100)
    finally:
        follower.terminate()
        follower.communicate(timeout=WAIT_S)
        answers = clients.end()

    assert set(answers) == {200}, answers


def write(path, urls):
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(urls))
    draft.replace(path)


def wait_for_line(follower, *urls):
    """Wait until the command says that it has written *urls*."""
    line = follower.stderr.readline()
    expected = ", ".join(sorted(url.removeprefix("http://") for url in urls))

    assert line.rstrip().endswith(f": {expected}"), line


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_node_that_hangs_is_left_out_and_comes_back(proxy, start_node, start_proxy):
    hangs, stays = start_node(), start_node()
    running = start_proxy(proxy, "--servers", hangs.url, stays.url, "--timeout", "3")
    processes = [hangs.pid, *descendants(hangs.pid)]
    clients = Clients(running.port, CLIENTS)
    clients.more(100)
    try:
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        clients.more(600)
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGCONT)
    answers = clients.end()
    lost = sum(number for status, number in answers.items() if status != 200)

    assert lost <= 3 * CLIENTS, (
        answers
    )  # each client at most once in a timeout, until the checks fail


def descendants(pid):
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True)
    parents = dict(map(int, line.split()) for line in listed.stdout.splitlines()[1:])
    found, level = [], [pid]
    while level:
        level = [each for each, parent in parents.items() if parent in level]
        found += level
    return found
