# SPDX-License-Identifier: Apache-2.0
"""Deployments on a Ray cluster of four nodes, under load."""

import importlib.util
import json
import os
import signal
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from servekit.errors import StartupError
from tests import waiting
from tests.processes import is_alive

pytest.importorskip("ray")
pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]
wait_until = partial(waiting.wait_until, every_s=0.05)


def load_of(deployment, **options):
    """Return requests at a fixed rate: see ``load.py``."""
    spec = importlib.util.spec_from_file_location("load", Path(__file__).with_name("load.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Load(deployment, **options)


def greet(url, name="Ada"):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/greet/predict", json.dumps(name).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["prediction"]


def test_each_server_has_a_ray_node_of_its_own_and_down_leaves_none(deployments, greeter):
    archive = greeter(weights=40 << 20)  # more than a chunk
    deployment = deployments(archive, nodes=2, replicas=1)
    status = deployment.status()
    answers = [greet(url) for url in deployment.urls()]
    deployment.down()

    assert answers == ["Hello, Ada"] * 2
    assert len({server.ray_node for server in status.servers}) == 2
    assert [is_alive(server.pid) for server in status.servers] == [False, False]


def test_a_swap_goes_from_server_to_server_and_fails_no_request(deployments, greeter):
    deployment = deployments(greeter(), nodes=2)
    with load_of(deployment) as load:
        deployment.swap("greet", greeter("2.0", "Welcome"), watch_s=1)

    assert load.errors == []
    assert {*load.answers} == {"Hello, Ada", "Welcome, Ada"}
    assert [greet(url) for url in deployment.urls()] == ["Welcome, Ada"] * 2


def test_a_version_that_fails_its_examples_changes_nothing(deployments, greeter):
    deployment = deployments(greeter(), nodes=2)
    before = deployment.status()
    bad = greeter("2.0", "Goodbye", output="Hello, Ada")
    with load_of(deployment) as load, pytest.raises(StartupError, match="example"):
        deployment.swap("greet", bad, watch_s=1)

    after = deployment.status()
    assert load.errors == []
    assert [server.models for server in after.servers] == [s.models for s in before.servers]
    assert after.order == before.order
    assert {*load.answers} == {"Hello, Ada"}


def test_the_number_of_servers_changes_and_no_request_fails(deployments, greeter):
    deployment = deployments(greeter(), nodes=2, cpus=1)
    with load_of(deployment) as load:
        deployment.scale(4)
        four = deployment.wait(120)
        deployment.scale(2)
        two = deployment.wait(120)

    assert (len(four.ready), len(two.ready)) == (4, 2)
    assert load.errors == []


def test_requests_that_wait_bring_another_server(deployments, greeter):
    deployment = deployments(greeter(seconds=0.3), autoscale=(1, 2), replicas=1)
    with load_of(deployment, rate=40):
        wait_until(lambda: len(deployment.urls()) == 2, "a second server")

    assert deployment.status().target == 2


def test_a_node_that_is_lost_costs_only_what_it_had(deployments, greeter, cluster):
    deployment = deployments(greeter(), nodes=2)
    ids = {node.node_id: node for node in cluster.worker_nodes}
    lost = next(each for each in deployment.status().servers if each.ray_node in ids)
    with load_of(deployment) as load:
        wait_until(lambda: len(load.answers) > 200, "requests are answered")
        ids[lost.ray_node].kill_raylet()
        wait_until(lambda: not is_alive(lost.pid), "the server ends with its node")
        ended = time.monotonic()
        wait_until(lambda: lost.url not in deployment.urls(), "its address is withdrawn")
        wait_until(lambda: len(deployment.urls()) == 2, "another server takes its place")
        took_s = time.monotonic() - ended
        answered = len(load.answers)
        wait_until(lambda: len(load.answers) > answered + 100, "requests are answered")

    errors = [(round(at - ended, 2), text) for at, text in load.errors]
    assert len(errors) <= 8, errors  # as many as the load has threads
    assert all(abs(after_s) < 10 for after_s, _ in errors), errors
    print(f"replaced after {took_s:.1f} s, {len(load.errors)} requests failed")
    assert took_s < 30 + 60  # to find out, and to load, on a busy machine


def test_a_new_controller_takes_over_the_servers(deployments, greeter):
    deployment = deployments(greeter(), nodes=2)
    before = {server.pid for server in deployment.status().servers}
    with load_of(deployment) as load:
        wait_until(lambda: len(load.answers) > 200, "requests are answered")
        os.kill(deployment.status().controller_pid, signal.SIGKILL)
        wait_until(lambda: len(deployment.urls()) == 2, "the controller is back")

    assert load.errors == []
    assert {server.pid for server in deployment.status().servers} == before


def names_of_servers():
    """Return the names of the actors that run servers, without asking the controller."""
    import ray

    actors = ray.util.list_named_actors(all_namespaces=True)
    return {each["name"] for each in actors if each["name"].startswith("servekit:servekit:")}


def test_a_new_controller_works_even_if_nobody_asks_it(deployments, greeter):
    deployment = deployments(greeter(), nodes=2)
    status, before = deployment.status(), names_of_servers()
    os.kill(status.controller_pid, signal.SIGKILL)
    os.kill(status.servers[0].pid, signal.SIGKILL)

    wait_until(
        lambda: names_of_servers() - before, "another server takes the place of the lost one"
    )


def test_a_url_is_loaded_anew_by_each_server(deployments, greeter, tmp_path):
    """The same URL, behind which another archive is by now."""
    pytest.importorskip("servekit_fsspec")
    place = tmp_path / "now.mar"
    place.write_bytes(Path(greeter()).read_bytes())
    url = f"file://{place}"
    deployment = deployments(f"greet={url}", nodes=2)
    place.write_bytes(Path(greeter("2.0", "Welcome")).read_bytes())
    deployment.swap("greet", url, watch_s=0)

    assert [greet(each) for each in deployment.urls()] == ["Welcome, Ada"] * 2


@pytest.mark.usefixtures("gpus")
def test_replicas_share_the_gpus_that_ray_has_assigned(deployments, greeter):
    deployment = deployments(greeter(greeting="{DEVICE}", seconds=0.2), gpus=2, replicas=2)
    [url] = deployment.urls()
    answers = set()

    def are_two():  # the second replica may still be starting
        answers.update(threads.map(greet, [url] * 12))
        return len(answers) == 2

    with ThreadPoolExecutor(4) as threads:
        wait_until(are_two, "both replicas answer")
    assert answers == {"0, Ada", "1, Ada"}


def test_what_the_cluster_lacks_is_said(deployments, greeter):
    with pytest.raises(StartupError, match=r"a Ray node for itself, with 64 CPUs: 0 of \d nodes"):
        deployments(greeter(), nodes=2, cpus=64, timeout_s=3)
    deployments(greeter("1.1"), nodes=1)  # the name is free


def test_a_model_that_cannot_be_loaded_ends_the_deployment(deployments, greeter):
    with pytest.raises(StartupError, match="example"):
        deployments(greeter(output="Goodbye"), nodes=1)
