# SPDX-License-Identifier: Apache-2.0
"""A swap of one model on all servers, one after another."""

import asyncio
import logging
from dataclasses import dataclass

from servekit.errors import StartupError
from servekit_ray.fleet import Fleet
from servekit_ray.state import RollOperation, ShippedModel
from servekit_ray.watched import WatchedServer

__all__ = ["Rolling"]

LOGGER = logging.getLogger("servekit_ray")
POLL_S = 0.2


@dataclass
class Rolling:
    """Runs in: the event loop of the controller."""

    fleet: Fleet
    operation: RollOperation
    old: ShippedModel
    new: ShippedModel
    watch_s: float  #: how long each server watches the new version

    async def run(self) -> bool:
        """Swap on each server; return whether all serve the new version.

        The first server that refuses it, or rolls it back, ends this: the others return to the
        old version. It continues if a server is lost meanwhile.
        """
        done: list[WatchedServer] = []
        while server := await self._next():
            try:
                await self._swap(server)
            except StartupError as error:
                self.operation.error = f"{server.url}: {error}"
                await self._undo(done)
                return False
            done.append(server)
        return True

    async def _next(self) -> WatchedServer | None:
        """Return a server with the old version, when those that load have loaded."""
        while True:
            staying = self.fleet.staying
            for server in staying:
                if server.models.get(self.operation.model, self.new) != self.new:
                    return server
            if not any(server.state == "loading" for server in staying):
                return None
            await asyncio.sleep(POLL_S)

    async def _swap(self, server: WatchedServer) -> None:
        import ray

        try:
            await self.fleet.swap(server, self.operation.model, self.new, self.watch_s)
        except ray.exceptions.RayActorError:
            self.fleet.lose(server, "ended while it swapped")
            self.operation.steps.append(f"{server.url} is lost")
        else:
            self.operation.steps.append(f"{server.url} serves the new version")

    async def _undo(self, done: list[WatchedServer]) -> None:
        import ray

        for server in reversed(done):
            try:
                await self.fleet.rollback(server, self.operation.model, self.old)
                self.operation.steps.append(f"{server.url} serves the old version again")
            except (StartupError, ray.exceptions.RayActorError) as error:
                LOGGER.warning("%s cannot return to the old version: %s", server.url, error)
                self.fleet.lose(server, "serves a version that was refused elsewhere")
