# SPDX-License-Identifier: Apache-2.0
"""Replaces the default version of a model by one that has proved itself."""

from time import monotonic

from servekit.ipc.operations import Swap
from servekit.supervisor.models.model import Model, saved_version
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.operations.one_by_one import OneByOne
from servekit.supervisor.operations.progress import OperationFailed, Progress
from servekit.supervisor.operations.server import (
    CONFLICT,
    UNPROCESSABLE,
    OperatedServer,
    load_version,
    prepare_version,
    source_of,
    version_of,
)
from servekit.supervisor.operations.watching import BoundCrossed, Watch
from servekit.supervisor.os.coroutines import sleep

__all__ = ["Replacement", "check_swap", "kept_version", "let_go", "swap"]

BUSY_S = 1.0  #: until it is tried again to unload a version of a model that is busy
DRAIN_POLL_S = 0.1
LONGEST_DRAIN_S = 60.0  #: a stream may last longer; its worker waits for it when it is unloaded


def check_swap(order: Swap, model: Model) -> None:
    """Check that *order* makes sense.

    :raises OperationFailed: it does not, or *model* does not serve.
    """
    if bool(order.source) == bool(order.version):
        raise OperationFailed(UNPROCESSABLE, "give either a source or a version")
    if any(not 0 < share < 100 for share in order.shift) or order.shift != sorted(order.shift):
        raise OperationFailed(UNPROCESSABLE, f"shift: {order.shift} does not grow from 1 to 99")
    old = version_of(model, "")
    if order.version and version_of(model, order.version) is old:
        raise OperationFailed(CONFLICT, f"{old.version} is the default version already")
    if order.one_by_one and (order.version or order.shift):
        reason = "one_by_one: needs a source, and shifts the traffic by itself"
        raise OperationFailed(UNPROCESSABLE, reason)
    if order.source:
        source_of(order.source, model.name, order.settings)
    if (order.shift or order.one_by_one) and model.traffic.wanted.weights:
        raise OperationFailed(CONFLICT, "the model has weights; remove them first")


async def swap(server: OperatedServer, model: Model, order: Swap, progress: Progress) -> None:
    """Carry out *order*: load, shift, watch, drain; roll back if the new version is worse."""
    old = version_of(model, "")
    if order.version:
        new = version_of(model, order.version)
        progress.row.version = new.version
    else:
        source = source_of(order.source, model.name, order.settings)
        new = await prepare_version(model, source, progress)
        if order.shift and new.version == old.version:
            new.files.release()
            reason = f"shift: the new version is called {new.version}, as the old one is"
            raise OperationFailed(UNPROCESSABLE, reason)
        if (kept := release_kept(model)) is not None:  # it makes room for the new one
            await model.versions.until(lambda: not kept.pids)
        if order.one_by_one:
            await OneByOne(server, model, order, progress, old, new).run()
            return
        await load_version(server, model, new, progress, old)
    await Replacement(server, model, order, progress, old, new).run()


class Replacement:
    """One swap, from a loaded new version to its end."""

    def __init__(
        self,
        server: OperatedServer,
        model: Model,
        order: Swap,
        progress: Progress,
        old: ModelVersion,
        new: ModelVersion,
    ) -> None:
        """Change nothing yet."""
        self._server, self._model, self._order = server, model, order
        self._progress = progress
        self._old, self._new = old, new
        self._traffic = model.traffic.wanted
        self._was_served = new in model.versions.others

    async def run(self) -> None:
        """Shift the traffic, watch, and let the old version go.

        :raises OperationFailed: a bound was crossed; the old version answers again.
        """
        watch = Watch(self._server.loop, self._new, self._order, self._server.read_counts)
        try:
            await self._shift(watch)
            with self._progress.step("switch", f"{self._new.version} is the default version"):
                self._model.traffic.wanted = self._traffic
                self._model.make_default(self._new)
            if self._order.watch_s:
                with self._progress.step("watch"):
                    await watch.through(self._order.watch_s)
        except BoundCrossed as error:
            self._roll_back(error)
            raise OperationFailed(
                UNPROCESSABLE, f"rolled back to {self._old.version}: {error}"
            ) from error
        await let_go(self._server, self._model, self._old, self._order.keep_s, self._progress)

    async def _shift(self, watch: Watch) -> None:
        """Direct a growing share of the requests to the new version."""
        model, old, new = self._model, self._old.version, self._new.version
        if self._order.shift and not self._was_served:
            model.versions.publish(self._new, as_default=False)
        for share in self._order.shift:
            with self._progress.step(f"shift {share} %"):
                model.traffic.split(old, new, share)
                await watch.through(self._order.step_s)

    def _roll_back(self, reason: BoundCrossed) -> None:
        model = self._model
        with self._progress.step("roll back", str(reason)):
            if model.versions.default is not self._old:
                model.make_default(self._old)
            model.traffic.wanted = self._traffic
            if not self._was_served:
                model.versions.retire(self._new)


async def let_go(
    server: OperatedServer, model: Model, old: ModelVersion, keep_s: float, progress: Progress
) -> None:
    """Wait until *old* has nothing more to do; unload it, now or after *keep_s*."""
    model.previous = saved_version(old)
    if old in model.versions.others and old.version in model.traffic.named:
        return  # requests reach it under its name
    if not keep_s:
        with progress.step("drain", f"{old.version} finishes its requests and leaves"):
            model.versions.retire(old)
            await model.versions.until(lambda: not old.pids)
        return
    release_kept(model)
    _keep(server, model, old, keep_s)
    if old in model.versions.others:  # versions of the same name share their counts
        with progress.step("drain", f"{old.version} stays loaded for {keep_s:.12g} s"):
            await _drain(server, old)


async def _drain(server: OperatedServer, version: ModelVersion) -> None:
    """Return when no front-end has a request for *version*."""
    end = monotonic() + LONGEST_DRAIN_S
    while monotonic() < end:
        await sleep(server.loop, DRAIN_POLL_S)
        counts = server.read_counts(version.prepared.name, version.version)
        if not counts.waiting + counts.running:
            return


def kept_version(model: Model) -> ModelVersion | None:
    """Return the version that is kept for a rollback, if it is still loaded and the one before."""
    kept = model.kept
    if kept is None or not model.versions.is_kept(kept) or saved_version(kept) != model.previous:
        return None
    return kept


def release_kept(model: Model) -> ModelVersion | None:
    """Unload the version that is kept for a rollback, and return it if there is one."""
    kept = model.kept
    model.keep(None)
    if kept is None or kept is model.versions.default or not model.versions.is_kept(kept):
        return None
    if kept in model.versions.others and kept.version in model.traffic.named:
        return None
    model.versions.retire(kept)
    return kept


def _keep(server: OperatedServer, model: Model, version: ModelVersion, keep_s: float) -> None:
    """Keep *version* for a rollback, and unload it after *keep_s*."""

    def unload() -> None:
        if model.work.doing:
            _keep(server, model, version, BUSY_S)
        else:
            release_kept(model)

    model.keep(version, server.loop.call_later(keep_s, unload))
