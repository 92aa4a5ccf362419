# SPDX-License-Identifier: Apache-2.0
"""Loads versions when requests ask for them, and unloads those that nobody has used for a while."""

from collections.abc import Iterator
from functools import partial

from servekit.ipc.control import Wanted
from servekit.ipc.counters import Counters
from servekit.ipc.model_counters import read_activity
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.registry import ModelRegistry
from servekit.supervisor.models.replica_set import ReplicaSet
from servekit.supervisor.models.uses import Uses
from servekit.supervisor.replicas.lifecycle import State
from servekit.supervisor.reporting import notices

__all__ = ["OnDemand"]

LOOK_S = 1.0  #: between two looks at what is used


class OnDemand:
    """Decides which of the versions that may sleep have workers."""

    def __init__(self, registry: ModelRegistry, counters: Counters) -> None:
        """Look at *counters* once a second, as soon as the loop runs."""
        self._registry = registry
        self._uses = Uses(partial(read_activity, counters))
        registry.loop.call_later(LOOK_S, self._look)

    def wanted(self, wanted: Wanted) -> None:
        """Load a version that a request waits for, unless it is loaded already."""
        model = self._registry.find(wanted.model)
        version = model.versions.find(wanted.version) if model is not None else None
        if model is not None and version is not None and not model.is_stopping:
            self._uses.touch(version)
            if version.is_asleep:
                self._wake(version)
        self._registry.changed()

    def _wake(self, version: ReplicaSet) -> None:
        reporter = self._registry.reporter
        reporter.notice(notices.model_wanted(version.prepared.label))
        self._registry.launching()
        try:
            version.launch()
        except OSError as error:  # no descriptor is left for a socket, or no room on the disk
            version.sleep()
            version.refusal = f"cannot be launched: {error.strerror}"
            reporter.notice(notices.model_failed(version.prepared.label, version.refusal))

    def _look(self) -> None:
        """Let versions sleep whose time without a request is over."""
        self._registry.loop.call_later(LOOK_S, self._look)
        awake = list(self._awake())
        if awake:
            self._uses.look()
        for version in awake:
            limit_s = version.prepared.idle_s
            if limit_s and self._uses.idle_s(version) >= limit_s:
                reason = f"unloaded after {limit_s:g} s without a request"
                self._registry.reporter.notice(notices.model_asleep(version.prepared.label, reason))
                version.sleep()

    def _awake(self) -> Iterator[ReplicaSet]:
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
