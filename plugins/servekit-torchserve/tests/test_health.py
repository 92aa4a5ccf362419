# SPDX-License-Identifier: Apache-2.0
"""What servers say about themselves while models load, cannot be loaded, or have no workers."""

import os
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection

import pytest
from torch_archives import write_mar
from torchserve_process import TorchServeProcess

from servekit.testing import ServedModel
from tests.processes import free_ports
from tests.waiting import wait_for_value, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
GOOD = """
    def handle(data, context):
        return ["good"] * len(data) if data else None
"""
#: loading blocks until somebody opens the other end
GATED = """
    def handle(data, context):
        if data is None:
            return open({gate!r}).read() and None
        return ["late"] * len(data)
"""
BROKEN = "import no_such_module"
HEALTHY, UNHEALTHY = (200, {"status": "Healthy"}), (500, {"status": "Unhealthy"})
OPEN_API = "3.0.1"


@pytest.fixture
def store(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    os.mkfifo(tmp_path / "gate")
    write_mar(store / "good.mar", GOOD, name="good")
    write_mar(store / "broken.mar", BROKEN, name="broken")
    write_mar(store / "late.mar", GATED.format(gate=str(tmp_path / "gate")), name="late")
    return store


@contextmanager
def started(store, *models):
    arguments = ("--models", *models) if models else ()
    flags = ("--disable-token-auth", "--enable-model-api")
    with TorchServeProcess(store, *arguments, *flags) as process:
        wait_until(lambda: listens(process), "the address of inference answers")
        yield process


def listens(server):
    try:
        return server.ask("GET", "/ping/live", port=server.inference)
    except OSError:
        assert server.process.poll() is None, server.output


def about(server):
    """Return the health, and the version of OpenAPI of both descriptions."""
    health = server.ask("GET", "/ping", port=server.inference)
    pages = ("GET", "/api-description"), ("OPTIONS", "/")
    described = [server.ask(*page, port=server.inference)[1] for page in pages]
    return health, [page and page.get("openapi") for page in described]


def test_a_server_whose_model_loads_is_unhealthy(store):
    with started(store, "late.mar") as server:
        found = about(server)
        with open(store.parent / "gate", "w"):  # noqa: PTH123 - blocks until the handler reads
            loading = about(server)
        ready = about(server.wait_ready())

    assert [found, loading] == [(UNHEALTHY, [OPEN_API] * 2)] * 2
    assert ready == (HEALTHY, [OPEN_API] * 2)


def test_a_server_with_a_model_that_cannot_be_loaded_is_unhealthy(store):
    with started(store, "good.mar", "broken.mar") as server:
        first = about(server)
        ask = partial(server.ask, "POST", "/predictions/good", 1, port=server.inference)
        wait_for_value(ask, (200, "good"), "the answer of the other model")
        wait_until(lambda: "no_such_module" in server.output, "the reason is logged")
        after = about(server)

    assert [first, after] == [(UNHEALTHY, [OPEN_API] * 2)] * 2


def test_a_model_without_workers_leaves_a_server_healthy_and_is_loaded_at_each_path(store):
    with started(store, "good.mar") as server:
        server.wait_ready()
        server.ask("POST", "/models?url=good.mar&model_name=z&initial_workers=0")
        asleep = about(server)
        predicted = server.ask("POST", "/v1/models/z:predict", 1, port=server.inference)

    assert asleep == (HEALTHY, [OPEN_API] * 2)
    assert predicted == (200, "good")


def test_an_archive_that_servekit_start_loads_is_unhealthy_too(store):
    (port,) = free_ports(1)
    with ServedModel(store / "late.mar", port=port) as server:
        unpacked = partial(status_of, port, "GET", "/ping")
        wait_for_value(unpacked, 500, "the status once the archive is unpacked")
        found = [status_of(port, *each) for each in (("POST", "/invocations"), ("OPTIONS", "/"))]
        with open(store.parent / "gate", "w"):  # noqa: PTH123 - blocks until the handler reads
            pass
        health = server.wait_ready().get("/ping").json()

    assert found == [503, 200]
    assert health == HEALTHY[1]


def test_a_model_of_servekit_that_cannot_be_loaded_leaves_the_pages_to_servekit(store, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "service.py").write_text(BROKEN)
    (tmp_path / "own" / "model.toml").write_text('name = "own"\nservice = "service:Own"\n')
    with ServedModel(store / "good.mar", tmp_path / "own") as server:
        server.log.wait_for("worker_ready", model="good")
        health = server.get("/ping")

    assert health.status == 503
    assert "healthy" in health.json()["health"]


def status_of(port, method, path):
    """Return the status; 0 if nothing answers."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()
