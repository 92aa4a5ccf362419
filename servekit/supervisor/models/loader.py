# SPDX-License-Identifier: Apache-2.0
"""Has the versions of one model prepared, one after another."""

from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from servekit.errors import StartupError
from servekit.settings.archive_keys import read_archive_keys
from servekit.settings.deployments import Deployment
from servekit.settings.models import deployments_of
from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.models.version_source import LoadFailed, LoadRefused, VersionSource
from servekit.supervisor.os.coroutines import Future
from servekit.supervisor.os.memory_directory import memory_twin
from servekit.supervisor.os.user import user_of_model
from servekit.supervisor.preparing.child import PrepareChild
from servekit.supervisor.preparing.messages import (
    PreparedModel,
    PrepareOutcome,
    PrepareRequest,
    policy_of,
)
from servekit.supervisor.preparing.model_files import FilesRemoved, ModelFiles, remove_in_background
from servekit.supervisor.replicas.load_queue import QueuedLoad
from servekit.supervisor.reporting.journal import LogPlace

__all__ = ["Loader"]

PREPARE_TIMEOUT_S = 120.0  #: where the operator sets none: the model's own is not known yet


class Loader:
    """Runs one prepare child at a time, each when there is room for it."""

    def __init__(self, host: ModelHost, number: int, name: Callable[[], str]) -> None:
        """Do nothing yet.

        :param number: that of the model among all; it tells which user its workers run as.
        :param name: returns the model's name, as the log shows it.
        """
        self._host = host
        self._number = number
        self._name = name
        self._child: PrepareChild | None = None
        self._attempts = 0
        self.is_stopping = False

    @property
    def pids(self) -> set[int]:
        """The prepare child, while it runs."""
        return {self._child.pid} if self._child else set()

    async def prepare(self, source: VersionSource) -> tuple[PreparedModel, ModelFiles]:
        """Return what can be launched. Does not return if it is stopped meanwhile.

        :raises LoadFailed: it cannot be prepared; one line for each problem.
        """
        await self._turn()
        try:
            while True:
                outcome = await self._run(source)
                if outcome.model is None:
                    raise (LoadRefused if outcome.is_refused else LoadFailed)(outcome.error)
                try:
                    return outcome.model, ModelFiles(outcome.model)
                except FilesRemoved:  # by another server that uses the cache
                    continue
        finally:
            self._host.preparations.done(self)

    def stop(self) -> None:
        """Prepare nothing from now on."""
        self.is_stopping = True
        self.kill()

    def kill(self) -> None:
        """Kill the prepare child."""
        if self._child:
            self._child.kill()

    async def _turn(self) -> None:
        """Return when there is room for one more prepare child."""
        turn: Future[None] = Future()
        self._host.preparations.ask(
            QueuedLoad(self, 0, lambda: turn.set(None), lambda _reason: None)
        )
        await turn

    async def _run(self, source: VersionSource) -> PrepareOutcome:
        """Run one prepare child to its end."""
        reporter, ended = self._host.reporter, Future[PrepareOutcome]()
        self._attempts += 1
        attempt = f"{self._number}-{self._attempts}"
        scratch = self._host.run_dir / "archives" / attempt
        memory = memory_twin(self._host.run_dir) / attempt
        reporter.progress(self._name(), "preparing")
        try:
            self._child = PrepareChild(
                self._host.loop,
                self._request(source, scratch, memory),
                self._host.settings.load_timeout or PREPARE_TIMEOUT_S,
                lambda line: reporter.line(self._name(), line, LogPlace(self._name())),
                lambda outcome: self._received(outcome, (scratch, memory), ended),
            )
        except OSError as error:
            return PrepareOutcome(error=f"cannot be prepared: {error.strerror}")
        except StartupError as error:
            return PrepareOutcome(error=str(error))
        return await ended

    def _request(self, source: VersionSource, scratch: Path, memory: Path) -> PrepareRequest:
        settings = self._host.settings
        return PrepareRequest(
            source.path,
            source.name,
            settings.cache_dir,
            settings.install_requirements,
            settings.fetch_assets,
            user_of_model(settings.worker_user, self._number, self._number + 1),
            str(scratch),  # for what a plugin gets from a URL
            list(settings.require_plugins),
            policy_of(settings),
            self._layers(source),
            str(memory),  # for a decrypted archive
            read_archive_keys(settings.archive_keys),
        )

    def _layers(self, source: VersionSource) -> list[Deployment]:
        """Return the settings for *source*, the strongest last.

        A digest of the configuration is that of the file which the configuration names.
        """
        layers = deployments_of(self._host.settings, source.name)
        if all(each.path != source.path for each in self._host.sources):
            layers = [structs.replace(each, path="", sha256="") for each in layers]
        return [*layers, source.deployment] if source.settings else layers

    def _received(
        self, outcome: PrepareOutcome, used: tuple[Path, ...], ended: Future[PrepareOutcome]
    ) -> None:
        if outcome.step:
            self._host.reporter.progress(self._name(), outcome.step)
            return
        self._child = None
        for directory in used:
            if outcome.model is None and directory.exists():  # the child was killed
                remove_in_background(directory)
        if not self.is_stopping:
            self._host.reporter.progress(self._name(), "")
            ended.set(outcome)
        self._host.changed()
