# SPDX-License-Identifier: Apache-2.0
"""Replaces a version replica by replica, for where two versions do not fit in memory."""

from servekit.ipc.operations import Swap
from servekit.supervisor.models.model import Model, saved_version
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.operations.progress import OperationFailed, Progress
from servekit.supervisor.operations.server import UNPROCESSABLE, OperatedServer
from servekit.supervisor.operations.watching import BoundCrossed, Watch

__all__ = ["OneByOne"]


class OneByOne:
    """One swap; each turn takes a replica of every stage from the old version to the new one."""

    def __init__(
        self,
        server: OperatedServer,
        model: Model,
        order: Swap,
        progress: Progress,
        old: ModelVersion,
        new: ModelVersion,
    ) -> None:
        """Change nothing yet; *new* has no replicas.

        :raises OperationFailed: a stage has only one replica, or both versions have one name.
        """
        self._server, self._model, self._order = server, model, order
        self._progress = progress
        self._old, self._new = old, new
        self._old_counts, self._new_counts = old.counts, new.counts
        self._turns = max([*self._old_counts.values(), *self._new_counts.values()])
        problem = ""
        if min([*self._old_counts.values(), *self._new_counts.values()]) < 2:
            problem = "one_by_one: each stage needs at least 2 replicas"
        elif old.version == new.version:
            problem = f"one_by_one: the new version is called {new.version}, as the old one is"
        if problem:
            new.files.release()
            raise OperationFailed(UNPROCESSABLE, problem)

    async def run(self) -> None:
        """Replace all replicas.

        :raises OperationFailed: one did not load, or answers worse; the old version has all again.
        """
        self._expect(self._new, self._new_counts)
        try:
            await self._replace_all()
        finally:
            self._model.versions.expected = {}

    def _expect(self, stays: ModelVersion, counts: dict[str, int]) -> None:
        """Share the cores out as if only *stays* were there, with *counts* replicas."""
        self._model.versions.expected = {self._old: 0, self._new: 0, stays: sum(counts.values())}

    async def _replace_all(self) -> None:
        model = self._model
        watch = Watch(self._server.loop, self._new, self._order, self._server.read_counts)
        try:
            for turn in range(1, self._turns):
                with self._progress.step(f"replace {turn} of {self._turns}"):
                    await self._replace(turn)
                    await watch.through(self._order.step_s)
            with self._progress.step("switch", f"{self._new.version} is the default version"):
                model.traffic.all_to_default()
                model.make_default(self._new)
            with self._progress.step("watch"):
                await watch.through(self._order.watch_s)
            with self._progress.step(f"replace {self._turns} of {self._turns}"):
                await self._replace(self._turns)
        except BoundCrossed as error:
            await self._roll_back(str(error))
            reason = f"rolled back to {self._old.version}: {error}"
            raise OperationFailed(UNPROCESSABLE, reason) from error
        model.previous = saved_version(self._old)
        model.versions.retire(self._old)

    async def _replace(self, turn: int) -> None:
        """Let the new version have *turn* replicas of each stage, and the old one the others.

        :raises BoundCrossed: a worker of the new version died.
        """
        old, new, versions = self._old, self._new, self._model.versions
        if turn == self._turns:
            versions.set_aside(old)
        for stage, count in self._old_counts.items():
            old.resize(stage, min(count, self._turns - turn))
        await versions.until(lambda: not old.is_shrinking)
        if turn == 1:
            versions.hide(new)
        try:
            for stage, count in self._new_counts.items():
                new.resize(stage, min(count, turn))
        except OSError as error:  # no descriptor is left for a socket, or no room on the disk
            raise BoundCrossed(f"cannot be launched: {error.strerror}") from error
        await versions.until(lambda: new.failure or new.is_whole)
        if new.failure:
            raise BoundCrossed(f"a worker died: {new.failure}")
        if turn == 1:
            versions.publish(new, as_default=False)
        if turn < self._turns:
            share = 100 * turn // self._turns
            self._model.traffic.split(old.version, new.version, share)

    async def _roll_back(self, reason: str) -> None:
        """Let the old version load what it has given away, and answer again."""
        model, old, new = self._model, self._old, self._new
        self._expect(old, self._old_counts)
        with self._progress.step("roll back", reason):
            for stage, count in self._old_counts.items():
                old.resize(stage, count)
            await model.versions.until(lambda: old.is_loaded or old.is_asleep)
            model.traffic.all_to_default()
            if model.versions.default is not old:
                model.make_default(old)
            model.versions.retire(new)
