# SPDX-License-Identifier: Apache-2.0
"""The controller and its servers when calls fail or hang, without a cluster."""

import asyncio
from unittest.mock import Mock

import pytest
from servekit_ray import controller as controllers
from servekit_ray import fleet as fleets
from servekit_ray.controller import ControllerActor
from servekit_ray.deployment import RayDeployment, give_up
from servekit_ray.fleet import Fleet
from servekit_ray.state import DesiredState, ServerOrder, ShippedModel
from servekit_ray.watched import WatchedServer

from servekit.errors import StartupError

ray = pytest.importorskip("ray")


class FakeFleet:
    """No servers; the first look for those of an earlier controller fails."""

    failures = 0
    problem = ""

    def __init__(self):
        self.servers, self.log, self.failures_left = {}, [], 1

    async def reattach(self):
        self.log.append("reattach")
        if self.failures_left:
            self.failures_left -= 1
            raise OSError("the GCS does not answer")

    async def watch(self):
        self.log.append("watch")

    def begin(self):
        self.log.append("begin")

    async def end(self):
        self.log.append("end")

    async def fetch(self, server, _path):
        assert server.state == "ready"
        return 200, b'servekit_replicas{model="m",state="serving",version="1"} 1\n'

    def leave(self, server):
        self.servers.pop(server.name)

    staying, starting = Fleet.staying, Fleet.starting


@pytest.fixture
def controller(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(controllers, "STEP_S", 0.01)
    state = {"shop": DesiredState(ServerOrder({}), 1, 1, 1)}
    monkeypatch.setattr(controllers, "read_state", state.get)
    monkeypatch.setattr(controllers, "write_state", state.__setitem__)
    calls = []
    monkeypatch.setattr(controllers, "resume_soon", lambda: calls.append("resume"))
    made = ControllerActor("shop")
    made._fleet = FakeFleet()
    made.kept, made.calls = state, calls
    yield made
    made._archives.remove()


def test_a_controller_that_cannot_look_for_its_servers_answers_and_looks_again(controller):
    async def use():
        async with asyncio.timeout(10):
            status = await controller.status()
            while "begin" not in controller._fleet.log:
                await asyncio.sleep(0.01)
            await controller.down()
        return status

    assert asyncio.run(use()).servers == []
    assert controller._fleet.log[:4] == ["reattach", "reattach", "watch", "begin"]
    assert controller._fleet.log[-2:] == ["reattach", "end"]
    assert controller.kept == {"shop": None}


def test_a_controller_that_ray_restarts_begins_to_work_before_anybody_asks(controller):
    assert controller.calls == ["resume"]


@pytest.mark.parametrize("state", ["waiting", "loading", "unready"])
def test_a_server_that_is_not_ready_does_not_stop_the_scaling(controller, monkeypatch, state):
    """Three are ready, and there is no room for a fourth, or it is not healthy."""
    now = [1000.0]
    monkeypatch.setattr(controllers, "monotonic", lambda: now[0])
    controller._desired = DesiredState(ServerOrder({}), 1, 8, 4)
    for number in range(4):
        server = WatchedServer(f"s{number}", None, "ready" if number else state)
        controller._fleet.servers[server.name] = server

    async def pass_minutes():
        for _ in range(200):
            await controller._autoscale()
            controller._step()
            now[0] += 2

    asyncio.run(pass_minutes())

    assert controller._desired.target == 1
    assert [server.state for server in controller._fleet.servers.values()] == ["ready"]


def test_a_controller_without_servers_says_how_to_free_its_name(controller):
    """Ctrl-C in the middle of ``down`` leaves one."""
    controller._desired = None
    with pytest.raises(StartupError, match="deployment shop is empty; servekit ray down frees it"):
        asyncio.run(controller.status())


class HangingActor:
    """An actor none of whose calls returns."""

    def __getattr__(self, _name):
        return self

    def remote(self, *_arguments):
        return asyncio.Event().wait()


def test_the_end_of_a_fleet_does_not_depend_on_work_that_failed(fleet):
    async def fail():
        raise OSError("the disk is full")

    async def use():
        fleet._spawn(fail())
        await fleet.end()

    asyncio.run(use())


@pytest.fixture
def endless():
    """Return a deployment that cannot be ended."""
    deployment = RayDeployment("shop", None)
    deployment.down = Mock(side_effect=OSError("the GCS does not answer"))
    return deployment


def test_why_a_deployment_failed_is_said_even_if_it_cannot_be_ended(endless):
    with pytest.raises(
        StartupError, match=r"no room\ndeployment shop: cannot be ended: the GCS does not"
    ):
        give_up(endless, StartupError("no room"))


def test_ctrl_c_stays_what_it_is_if_a_deployment_cannot_be_ended(endless):
    give_up(endless, interrupt := KeyboardInterrupt())

    assert "deployment shop: cannot be ended: the GCS does not" in interrupt.__notes__[0]


async def no_chunks(_model):
    return []


@pytest.fixture
def fleet(monkeypatch):
    monkeypatch.setattr(ray, "kill", lambda _actor: None)
    return Fleet("shop", no_chunks, lambda: ServerOrder({}))


@pytest.mark.parametrize("method", ["swap", "rollback"])
def test_a_server_that_never_answers_is_replaced(fleet, monkeypatch, method):
    monkeypatch.setattr(fleets, "SWAP_S", 0.01)
    server = fleet.servers["one"] = WatchedServer("one", HangingActor(), "ready")
    more = (0.01,) if method == "swap" else ()

    async def use():
        async with asyncio.timeout(10):
            await getattr(fleet, method)(server, "m", ShippedModel("a.mar"), *more)

    with pytest.raises(StartupError, match="no answer within"):
        asyncio.run(use())
    assert fleet.servers == {}
