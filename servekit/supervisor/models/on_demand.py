# SPDX-License-Identifier: Apache-2.0
"""Loads versions when requests ask for them, and unloads those that nobody has used for a while."""

from collections import deque
from collections.abc import Iterator
from functools import partial
from time import monotonic

from servekit.ipc.control import Wanted
from servekit.ipc.counters import Counters
from servekit.ipc.model_counters import read_activity
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.models.registry import ModelRegistry
from servekit.supervisor.models.uses import Uses
from servekit.supervisor.os.coroutines import run_coroutine, sleep
from servekit.supervisor.replicas.lifecycle import State
from servekit.supervisor.reporting import notices

__all__ = ["OnDemand"]

POLL_S = 1.0  #: how often to check what is used
LEFT_POLL_S = 0.02  #: how often to check whether workers have left


class OnDemand:
    """Decides which of the versions that may sleep have workers."""

    def __init__(self, registry: ModelRegistry, counters: Counters) -> None:
        """Look at *counters* once a second, as soon as the loop runs."""
        self._registry = registry
        self._uses = Uses(partial(read_activity, counters))
        self._wanted: deque[ModelVersion] = deque()
        registry.loop.call_later(POLL_S, self._look)

    def wanted(self, wanted: Wanted) -> None:
        """Load a version that a request waits for, unless it is loaded already."""
        model = self._registry.find(wanted.model)
        version = model.versions.find(wanted.version) if model is not None else None
        if model is not None and version is not None and not model.is_stopping:
            self._uses.touch(version)
            if version.is_asleep and version not in self._wanted:
                self._wanted.append(version)
                if len(self._wanted) == 1:
                    run_coroutine(self._registry.loop, self._load_wanted())

    async def _load_wanted(self) -> None:
        """Load the wanted versions, one after another, since each needs its own room."""
        while self._wanted:
            try:
                await self._wake(self._wanted[0])
            finally:
                self._wanted.popleft()
                self._registry.changed()

    async def _wake(self, version: ModelVersion) -> None:
        version.refusal, reporter = "", self._registry.reporter
        if problem := await self._make_room(version):
            self._refuse(version, problem)
        elif version.is_asleep and self._is_served(version):
            reporter.notice(notices.model_wanted(version.prepared.label))
            self._registry.launching()
            try:
                version.launch()
            except OSError as error:  # no descriptor is left for a socket, or no room on the disk
                version.sleep()
                self._refuse(version, f"cannot be launched: {error.strerror}")

    def _refuse(self, version: ModelVersion, reason: str) -> None:
        version.refuse(reason)
        self._registry.reporter.notice(notices.model_failed(version.prepared.label, reason))

    def _is_served(self, version: ModelVersion) -> bool:
        """Whether *version* is here still, and the server does not end."""
        return any(
            version in model.versions.served for model in self._registry if not model.is_stopping
        )

    async def _make_room(self, version: ModelVersion) -> str:
        """Let others sleep until there is room for *version*; return why there is none, or "".

        Those that work or load at the moment are given time until the requests for *version* end.
        """
        memory, loop = self._registry.memory, self._registry.loop
        deadline = monotonic() + self._registry.settings.wake_timeout
        while memory.lacks(version):
            if problem := memory.problem(memory.of(version)):
                return problem
            if monotonic() >= deadline:
                return "no other model could be unloaded in time"
            if not self._has_leaving() and (victim := self._least_used()) is not None:
                self._let_sleep(victim, f"unloaded to make room for {version.prepared.label}")
            await sleep(loop, LEFT_POLL_S)
        return ""

    def _has_leaving(self) -> bool:
        """Whether workers of a version that sleeps are still there."""
        versions = (version for model in self._registry for version in model.versions)
        return any(version.is_asleep and version.pids for version in versions)

    def _least_used(self) -> ModelVersion | None:
        """Return the version to unload next, if one can be."""
        self._uses.look()
        idle = [version for version in self._awake() if not self._uses.is_busy(version)]
        return max(idle, key=self._uses.idle_s, default=None)

    def _let_sleep(self, version: ModelVersion, reason: str) -> None:
        self._registry.reporter.notice(notices.model_asleep(version.prepared.label, reason))
        version.sleep()

    def _look(self) -> None:
        """Let versions sleep whose time without a request is over."""
        self._registry.loop.call_later(POLL_S, self._look)
        awake = list(self._awake())
        if awake:
            self._uses.look()
        for version in awake:
            limit_s = version.prepared.idle_s
            if limit_s and self._uses.idle_s(version) >= limit_s:
                self._let_sleep(version, f"unloaded after {limit_s:.12g} s without a request")
        self._keep_budget()

    def _keep_budget(self) -> None:
        """Let a version sleep if those that are loaded have grown beyond the budget."""
        memory = self._registry.memory
        if not memory.limit:
            return
        memory.measure()
        is_over = memory.taken > memory.limit and not self._has_leaving()
        if is_over and (victim := self._least_used()) is not None:
            self._let_sleep(victim, "unloaded: the models exceed models_memory")

    def _awake(self) -> Iterator[ModelVersion]:
        """Yield the versions that could be unloaded now; one that loads counts as used."""
        for model in self._registry:
            for version in [] if is_held(model) else model.versions.served:
                if not version.prepared.may_sleep or version.is_asleep:
                    continue
                if any(replica.state is State.STARTING for replica in version.replicas):
                    self._uses.touch(version)
                else:
                    yield version


def is_held(model: Model) -> bool:
    """Whether *model* must not be changed: an operation works on it, or the server ends."""
    return bool(model.work.doing) or model.is_stopping
