# SPDX-License-Identifier: Apache-2.0
"""The servers of a deployment, as its controller sees them: begun, watched, swapped, ended."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from servekit.errors import StartupError
from servekit_ray.server import ServerActor
from servekit_ray.state import ServerOrder, ShippedModel
from servekit_ray.watched import WatchedServer, get

__all__ = ["NAMESPACE", "Fleet", "cause_of"]

LOGGER = logging.getLogger("servekit_ray")
NAMESPACE: Final = "servekit"
REATTACH_S: Final = 10.0  #: an actor that lives answers a new controller within this time
IMPLICIT_RESOURCE: Final = "node:__internal_implicit_resource_"  #: Ray: one of each on every node
SWAP_S: Final = 1800.0  #: for a swap without its watching, the longest load of a model included
CALLS: Final = 8  #: at the same time, of one actor: stopping must not wait for a swap

#: returns references to the chunks of a model's archive
Chunks = Callable[[ShippedModel], Awaitable[list[Any]]]


class Fleet:
    """All servers of a deployment. Runs in: the event loop of the controller."""

    def __init__(self, deployment: str, chunks: Chunks, order: Callable[[], ServerOrder]) -> None:
        """Begin without servers; *order* returns what each has to serve."""
        self.servers: dict[str, WatchedServer] = {}
        self.problem = ""  #: why the last server could not be started
        self.failures = 0  #: starts that failed, since one succeeded
        self._deployment = deployment
        self._chunks = chunks
        self._order = order
        self._threads = ThreadPoolExecutor(64, "ping")
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def staying(self) -> list[WatchedServer]:
        """The servers that are not about to leave."""
        return [server for server in self.servers.values() if server.state != "leaving"]

    @property
    def starting(self) -> int:
        """How many servers wait for a node or load."""
        return sum(server.state in {"waiting", "loading"} for server in self.servers.values())

    def begin(self) -> None:
        """Ask Ray for a node with a server; it serves when Ray has one."""
        import ray

        order = self._order()
        name = f"servekit:{self._deployment}:{secrets.token_hex(4)}"
        options: dict[str, Any] = {
            "name": name,
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "max_restarts": 0,
            "max_concurrency": CALLS,
            "num_cpus": order.cpus,
            "num_gpus": order.gpus,
            "resources": {f"{IMPLICIT_RESOURCE}servekit:{self._deployment}": 1.0},
            "scheduling_strategy": "SPREAD",
        }
        server = WatchedServer(name, ray.remote(ServerActor).options(**options).remote())
        self.servers[name] = server
        self._spawn(self._bring_up(server))

    async def reattach(self) -> None:
        """Take over the servers of an earlier controller that are not known yet."""
        import ray

        actors = ray.util.list_named_actors(all_namespaces=True)
        names = [actor["name"] for actor in actors if actor["namespace"] == NAMESPACE]
        ours = [name for name in names if name.startswith(f"servekit:{self._deployment}:")]
        await asyncio.gather(*[self._take_over(name) for name in ours if name not in self.servers])

    async def _take_over(self, name: str) -> None:
        """Take over a server, if it serves."""
        import ray

        try:
            actor = ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return
        server = self.servers[name] = WatchedServer(name, actor)
        try:
            async with asyncio.timeout(REATTACH_S):
                server.ray_node = await actor.node.remote()
                server.url, server.pid, server.models = await actor.describe.remote()
        except (ray.exceptions.RayError, TimeoutError):
            pass
        if server.url:
            server.state = "ready"
            self._spawn(self._catch_up(server))  # the earlier controller may have ended in a swap
        else:
            self.lose(server, "does not answer the new controller")

    def lose(self, server: WatchedServer, reason: str) -> None:
        """Forget a server that does not serve, and end what is left of it."""
        import ray

        if self.servers.pop(server.name, None) is None:
            return
        LOGGER.warning("%s is lost: %s", server.name, reason)
        ray.kill(server.actor)

    def leave(self, server: WatchedServer) -> None:
        """Drain a server and end it; clients are not told of it from now on."""
        if server.state in {"waiting", "loading"}:
            self.lose(server, "is not needed any more")
        else:
            server.state = "leaving"
            self._spawn(self._drain(server))

    async def end(self) -> None:
        """Let all servers leave, and wait until they have."""
        for server in self.staying:
            self.leave(server)
        for found in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(found, Exception):
                LOGGER.error("work for a server failed", exc_info=found)

    async def watch(self) -> None:
        """Ask each server how it is; those that do not answer are lost."""
        served = [
            server for server in self.servers.values() if server.state in {"ready", "unready"}
        ]
        await asyncio.gather(*[self._check(server) for server in served])

    async def fetch(self, server: WatchedServer, path: str) -> tuple[int, bytes]:
        """Return status and body of a page of a server, as ``get`` does."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, get, f"{server.url}{path}")

    async def swap(
        self, server: WatchedServer, name: str, model: ShippedModel, watch_s: float
    ) -> None:
        """Swap one model of one server.

        :raises StartupError: it was refused or rolled back; the server serves what it did before.
        """
        chunks = await self._chunks(model)
        call = server.actor.swap.remote(name, model, chunks, watch_s)
        if problem := await self._answer(server, call, watch_s + SWAP_S):
            raise StartupError(problem)
        server.models[name] = model

    async def rollback(self, server: WatchedServer, name: str, model: ShippedModel) -> None:
        """Undo the swap of one server.

        :raises StartupError: it failed.
        """
        call = server.actor.rollback.remote(name, model)
        if problem := await self._answer(server, call, SWAP_S):
            raise StartupError(problem)
        server.models[name] = model

    # ------------------------------------------------------------ one server

    async def _answer(self, server: WatchedServer, call: Awaitable[str], timeout_s: float) -> str:
        """Return what a server answers; one that hangs is replaced: what it serves is unknown."""
        try:
            async with asyncio.timeout(timeout_s):
                return await call
        except TimeoutError:
            problem = f"no answer within {timeout_s:g} s"
            self.lose(server, problem)
            return problem

    async def _bring_up(self, server: WatchedServer) -> None:
        import ray

        try:
            server.ray_node = await server.actor.node.remote()
            server.state = "loading"
            await self._start(server, self._order())
        except (ray.exceptions.RayError, StartupError) as error:
            if server.name in self.servers:  # it was not given up
                self.problem, self.failures = cause_of(error), self.failures + 1
                self.lose(server, self.problem)
            return
        self.problem, self.failures = "", 0
        await self._catch_up(server)
        if server.state == "loading":  # it has not been told to leave
            server.state = "ready"
            LOGGER.info("%s serves at %s", server.name, server.url)

    async def _start(self, server: WatchedServer, order: ServerOrder) -> None:
        chunks = {model.digest: await self._chunks(model) for model in order.models.values()}
        server.url, server.pid = await server.actor.start.remote(order, chunks)
        server.models = dict(order.models)

    async def _catch_up(self, server: WatchedServer) -> None:
        """Swap the models of which another version is wanted by now."""
        import ray

        try:
            for name, model in self._order().models.items():
                if server.models.get(name) != model:
                    await self.swap(server, name, model, 0.0)
        except (ray.exceptions.RayError, StartupError) as error:
            self.lose(server, cause_of(error))

    async def _drain(self, server: WatchedServer) -> None:
        import ray

        try:
            await server.actor.stop.remote()
        except ray.exceptions.RayError as error:
            LOGGER.warning("%s did not stop: %s", server.name, error)
        self.servers.pop(server.name, None)
        ray.kill(server.actor)

    async def _check(self, server: WatchedServer) -> None:
        status, _ = await self.fetch(server, "/ping")
        if server.state == "leaving":
            return
        if server.note(status):
            self.lose(server, f"{server.url} does not answer")

    def _spawn(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def cause_of(error: BaseException) -> str:
    """Return what went wrong in an actor, in its own words."""
    return str(getattr(error, "cause", None) or error).strip()
