# SPDX-License-Identifier: Apache-2.0
"""The versions of one model: those that are served, those on trial, those that leave."""

import itertools
from collections.abc import Iterator, Mapping

from servekit.settings.deployments import Replicas
from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.models.saved_models import SavedVersion
from servekit.supervisor.models.version_source import LoadFailed, VersionSource
from servekit.supervisor.os.coroutines import Conditions
from servekit.supervisor.preparing.messages import PreparedModel
from servekit.supervisor.preparing.model_files import ModelFiles

__all__ = ["Versions"]


class Versions:
    """Keeps the workers of each version; the routing table names the default and the others."""

    def __init__(self, host: ModelHost, sockets: str) -> None:
        """Begin without a version; *sockets* is the prefix of the names of the model's sockets."""
        self._host = host
        self._sockets = sockets
        self._indexes = itertools.count()  # for replicas: no index is used twice
        self._hidden: list[ModelVersion] = []  # on trial, or set aside
        self._leaving: dict[ModelVersion, str] = {}  # and why
        self._is_stopping = False
        self._conditions = Conditions()
        self.default: ModelVersion | None = None
        self.others: list[ModelVersion] = []
        self.missing: list[SavedVersion] = []  #: an earlier server had them; not loaded yet
        #: how many replicas versions will have at the end of an operation, which clears this
        self.expected: dict[ModelVersion, int] = {}
        self.until = self._conditions.until

    def __iter__(self) -> Iterator[ModelVersion]:
        """Iterate over all versions that have workers."""
        return iter([*self.served, *self._hidden, *self._leaving])

    @property
    def served(self) -> list[ModelVersion]:
        """Those that requests can reach, the default first."""
        return [*([self.default] if self.default else []), *self.others]

    @property
    def size(self) -> int:
        """How many replicas it has, or will have."""
        awake = [each for each in [*self.served, *self._trials] if not each.is_asleep]
        return sum(self.expected.get(each, each.size) for each in awake)

    @property
    def _trials(self) -> list[ModelVersion]:
        return [each for each in self._hidden if each.is_trial]

    def is_kept(self, version: ModelVersion) -> bool:
        """Whether *version* is loaded, and not about to leave."""
        return version in self.served or version in self._hidden

    def find(self, version: str) -> ModelVersion | None:
        """Return the version with this name, if it is served."""
        return next((each for each in self.served if each.version == version), None)

    # ------------------------------------------------------------------ in

    def new(
        self,
        prepared: PreparedModel,
        files: ModelFiles,
        source: VersionSource,
        scaled: Mapping[str, Replicas],
    ) -> ModelVersion:
        """Return a version without replicas.

        :param scaled: numbers of replicas that were set at run time, by stage.
        """
        numbered = (self._indexes, self._sockets)
        return ModelVersion(self._host, prepared, files, source, scaled, numbered, self._on_change)

    def launch_first(self, first: ModelVersion) -> None:
        """Make *first* the default version, and boot it however often it fails, or on demand.

        :raises OSError: its sockets cannot be made; there is no version then.
        """
        prepared, self.default = first.prepared, first  # counted when threads are shared out
        self.forget_missing(first.version)
        try:
            if prepared.on_demand or (prepared.may_sleep and self._host.memory.lacks(first)):
                first.is_asleep = True
            else:
                first.launch()
        except OSError:
            self.default = None
            first.close()
            raise

    def hide(self, candidate: ModelVersion) -> None:
        """Take *candidate* in, on trial: no request reaches it until ``publish``."""
        candidate.is_trial = True
        self._hidden.append(candidate)

    def set_aside(self, version: ModelVersion) -> None:
        """Let no request reach *version*, which is not the default; ``publish`` is the reverse."""
        self.others.remove(version)
        self._hidden.append(version)
        self._host.changed()

    async def try_out(self, candidate: ModelVersion, replaces: ModelVersion | None = None) -> None:
        """Boot *candidate* next to the others; return when all its replicas serve.

        :param replaces: the version that leaves afterwards, as one with the same name does.
        :raises LoadFailed: a worker died; the others of *candidate* are stopped.
        """
        replaced = replaces or self.find(candidate.version)
        self.expected = {replaced: 0} if replaced else {}
        try:
            await self._load(candidate)
        finally:
            self.expected = {}

    async def _load(self, candidate: ModelVersion) -> None:
        self.hide(candidate)
        try:
            candidate.launch()
        except OSError as error:  # no descriptor is left for a socket, or no room on the disk
            candidate.failure = f"cannot be launched: {error.strerror}"
        await self.until(lambda: candidate.failure or candidate.is_whole)
        if candidate.failure:
            self.abandon(candidate)
            raise LoadFailed(candidate.failure)

    # ------------------------------------------------------------------ who is served

    def publish(self, version: ModelVersion, *, as_default: bool) -> None:
        """Let requests reach *version*.

        A default version that it replaces stays served under its own name, or is set aside if
        both have the same one.
        """
        old = self.default
        for group in (self._hidden, self.others):
            if version in group:
                group.remove(version)
        for other in [each for each in self.others if each.version == version.version]:
            self.retire(other)
        self.forget_missing(version.version)
        version.is_trial = False
        if as_default:
            self.default = version
            if old is not None and old is not version:
                (self._hidden if old.version == version.version else self.others).append(old)
            replaces = old.version if old is not None else ""
            version.announce_loaded(replaces)
        else:
            self.others.append(version)
            version.announce_loaded()
        self._host.changed()

    def miss(self, missing: list[SavedVersion]) -> None:
        """Note which versions an earlier server had; ``publish`` forgets one of the same name."""
        self.missing = missing

    def forget_missing(self, version: str) -> bool:
        """Forget the missing *version*; return whether there was one."""
        before, self.missing = self.missing, [m for m in self.missing if m.version != version]
        return len(self.missing) < len(before)

    def retire(self, version: ModelVersion, reason: str = "replaced") -> None:
        """Let no request reach *version* any more; its workers leave after their batches."""
        if version in self._leaving:
            return
        self._part(version, reason)
        version.retire()
        self._on_change()

    def abandon(self, version: ModelVersion) -> None:
        """Stop the workers of *version*, which answered nothing."""
        self._part(version, "replaced")
        version.stop()
        self._on_change()

    def _part(self, version: ModelVersion, reason: str) -> None:
        for group in (self._hidden, self.others):
            if version in group:
                group.remove(version)
        if version is self.default:
            self.default = None
        self._leaving[version] = reason

    # ------------------------------------------------------------------ end

    def stop(self) -> None:
        """Let the workers leave."""
        self._is_stopping = True
        for version in self:
            version.stop()

    def _on_change(self) -> None:
        for gone in [version for version in self._leaving if not version.pids]:
            gone.announce_unloaded(self._leaving.pop(gone))
            gone.files.discard()
            gone.close()
        for version in self.served:
            version.announce_loaded()
            if self._is_stopping and not version.pids:
                version.announce_unloaded("stopped")
        if not self._is_stopping:
            self._conditions.check()
        self._host.changed()
