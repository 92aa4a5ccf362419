# SPDX-License-Identifier: Apache-2.0
"""The actor that looks after a deployment: as many servers as wanted, each with what is wanted.

One for each deployment, detached and named; it runs on Ray's head node. If its process ends, Ray
starts another one, which reads the desired state and takes over the servers.
"""

import asyncio
import logging
import os
import secrets
import sys
from time import monotonic
from typing import Any, Final

import msgspec

from servekit.errors import StartupError
from servekit_ray.autoscaling import Queue, QueueLoad, ServerScaler, read_loads
from servekit_ray.fleet import Fleet
from servekit_ray.rolling import Rolling
from servekit_ray.shipping import ArchiveDirectory, get_chunks, put_chunks
from servekit_ray.state import (
    RUNNING,
    DeploymentStatus,
    DesiredState,
    RollOperation,
    ShippedModel,
)
from servekit_ray.stored import read_state, write_state
from servekit_ray.watched import WatchedServer

__all__ = ["ControllerActor"]

LOGGER = logging.getLogger("servekit_ray")
STEP_S: Final = 0.5
POLL_S: Final = 2.0  #: how often to judge the load
LONGEST_PAUSE_S: Final = 60.0  #: between attempts to start a server


class ControllerActor:
    """Runs in: an actor with an event loop."""

    def __init__(self, name: str) -> None:
        """Take over what an earlier process has left."""
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
        self._name = name
        self._archives = ArchiveDirectory()
        self._desired: DesiredState | None = read_state(name)
        self._fleet = Fleet(name, self._chunks, lambda: self._wanted().order)
        self._scaler = ServerScaler()
        self._look_at = 0.0  #: ``monotonic``: when to judge the load again
        self._operation: RollOperation | None = None
        self._start_after = 0.0  #: ``monotonic``
        self._loop: asyncio.Task[None] | None = None
        self._has_servers = asyncio.Event()  #: those of an earlier controller were looked for
        if self._desired is not None:
            resume_soon()  # Ray has restarted this actor, and nobody might ask it for anything

    async def resume(self) -> None:
        """Begin to work, if there is any, and wait until the servers are known."""
        if self._loop is None and self._desired is not None:
            self._loop = asyncio.create_task(self._run())
        if self._loop is not None:
            await self._has_servers.wait()

    async def add_archive(self, model: ShippedModel, chunks: list[Any]) -> None:
        """Take an archive out of the object store.

        :raises StartupError: it has changed on its way.
        """
        if self._archives.find(model) is None:
            await asyncio.to_thread(self._archives.receive, model, get_chunks(chunks))

    async def deploy(self, desired: DesiredState) -> None:
        """Work towards *desired* from now on.

        :raises StartupError: something is deployed already.
        """
        if self._desired is not None:
            raise StartupError(f"deployment {self._name}: exists; swap, scale or end it")
        self._desired = desired
        self._save()
        await self.resume()

    async def urls(self) -> list[str]:
        """Return the URLs of the servers that get requests."""
        await self.resume()
        return [each.url for each in self._fleet.servers.values() if each.state == "ready"]

    async def status(self) -> DeploymentStatus:
        """Return the deployment and all of its servers.

        :raises StartupError: nothing is deployed.
        """
        await self.resume()
        desired = self._wanted()
        return DeploymentStatus(
            name=self._name,
            minimum=desired.minimum,
            maximum=desired.maximum,
            target=desired.target,
            order=desired.order.shown,
            servers=[server.status for server in self._fleet.servers.values()],
            operation=self._operation,
            controller_pid=os.getpid(),
            problem=self._fleet.problem,
        )

    async def scale(self, minimum: int, maximum: int) -> None:
        """Work towards another number of servers.

        :raises StartupError: nothing is deployed, or a swap is running.
        """
        await self.resume()
        self._refuse_if_busy()
        self._wanted().scaled(minimum, maximum)
        self._scaler.reset()
        self._save()

    async def swap(self, name: str, model: ShippedModel, watch_s: float) -> RollOperation:
        """Replace a model on one server after another, and return how that has ended.

        :raises StartupError: there is no such model, or a swap is running.
        """
        await self.resume()
        self._refuse_if_busy()
        desired = self._wanted()
        if model.url:
            model = msgspec.structs.replace(model, revision=secrets.token_hex(4))
        if name not in desired.order.models:
            known = ", ".join(desired.order.models)
            raise StartupError(f"{name}: is not deployed; models: {known}")
        operation = self._operation = RollOperation(name)
        rolling = Rolling(self._fleet, operation, desired.order.models[name], model, watch_s)
        try:
            if await rolling.run():
                models = {**desired.order.models, name: model}
                desired.order = msgspec.structs.replace(desired.order, models=models)
                self._save()
                operation.state = "done"
        finally:
            operation.state = "failed" if operation.state == RUNNING else operation.state
        return operation

    async def down(self) -> None:
        """Drain all servers, and forget the deployment."""
        await self.resume()
        await self._fleet.reattach()  # no server stays that this process could not take over
        if self._loop is not None:
            self._loop.cancel()
        await self._fleet.end()
        self._desired = None
        write_state(self._name, None)
        self._archives.remove()

    def _refuse_if_busy(self) -> None:
        if self._operation is not None and self._operation.state == RUNNING:
            raise StartupError(f"{self._operation.model}: a swap is running; try again later")

    def _wanted(self) -> DesiredState:
        if self._desired is None:
            raise StartupError(f"deployment {self._name} is empty; servekit ray down frees it")
        return self._desired

    async def _run(self) -> None:
        is_taken_over = False
        while True:
            try:
                if not is_taken_over:  # no server begins before: it might be one too many
                    await self._fleet.reattach()
                    is_taken_over = True
                await self._fleet.watch()
                await self._autoscale()
                self._step()
            except Exception:
                LOGGER.exception("a step of the controller failed")
            finally:
                self._has_servers.set()
            await asyncio.sleep(STEP_S)

    def _step(self) -> None:
        """Start or end servers until there are as many as wanted."""
        desired = self._wanted()
        staying = self._fleet.staying
        lacking = desired.target - len(staying)
        if lacking > 0 and monotonic() >= self._start_after:
            for _ in range(lacking):
                self._fleet.begin()
            pause_s = min(2.0**self._fleet.failures - 1, LONGEST_PAUSE_S)
            self._start_after = monotonic() + pause_s
        for server in sorted(staying, key=expendable)[: max(0, -lacking)]:
            self._fleet.leave(server)

    async def _autoscale(self) -> None:
        """Change the target by how long requests wait at the servers that are ready."""
        desired, now = self._wanted(), monotonic()
        if desired.minimum == desired.maximum or now < self._look_at:
            return
        self._look_at = now + POLL_S
        if self._operation and self._operation.state == RUNNING:
            self._scaler.reset()
            return
        before, loads = desired.target, await self._loads()
        target = before + self._scaler.decide(now, loads, starting=self._fleet.starting)
        desired.target = min(max(target, desired.minimum), desired.maximum)
        if desired.target != before:
            LOGGER.info("%s scales from %d to %d servers", self._name, before, desired.target)
            self._scaler.reset()
            self._save()

    async def _loads(self) -> dict[str, dict[Queue, QueueLoad]]:
        """Return the queues of the servers that are ready, by server."""
        servers = [each for each in self._fleet.servers.values() if each.state == "ready"]
        pages = await asyncio.gather(*[self._fleet.fetch(each, "/metrics") for each in servers])
        return {
            server.name: read_loads(page.decode())
            for server, (status, page) in zip(servers, pages, strict=True)
            if status == 200
        }

    async def _chunks(self, model: ShippedModel) -> list[Any]:
        """Return references to an archive; if our copy is lost, from a server that has one.

        :raises StartupError: nobody has it.
        """
        if model.url:
            return []
        if path := self._archives.find(model):
            return await asyncio.to_thread(put_chunks, path)
        for server in self._fleet.servers.values():
            if server.url and (chunks := await server.actor.read_archive.remote(model)):
                await asyncio.to_thread(self._archives.receive, model, get_chunks(chunks))
                return list(chunks)
        raise StartupError(f"{model.file}: no server has the archive any more; deploy it again")

    def _save(self) -> None:
        write_state(self._name, self._wanted())


def expendable(server: WatchedServer) -> tuple[bool, float]:
    """Order servers by who leaves first: those that do not serve, then the youngest."""
    return server.state == "ready", -server.began


def resume_soon() -> None:
    """Let Ray call ``resume`` of this actor, once ``__init__`` has returned."""
    import ray

    # Ray refuses calls until the cluster knows that the actor has been restarted
    ray.get_runtime_context().current_actor.resume.options(max_task_retries=-1).remote()
