# SPDX-License-Identifier: Apache-2.0
"""Has a model prepared: at first, and whenever its source may have changed."""

from collections.abc import Callable
from pathlib import Path

from servekit.errors import StartupError
from servekit.settings.archive_keys import read_archive_keys
from servekit.settings.models import ModelSource, deployments_of
from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.os.memory_directory import memory_twin
from servekit.supervisor.os.user import user_of_model
from servekit.supervisor.preparing.child import PrepareChild
from servekit.supervisor.preparing.messages import PrepareOutcome, PrepareRequest, policy_of
from servekit.supervisor.preparing.model_files import FilesRemoved, ModelFiles, remove_in_background
from servekit.supervisor.replicas.load_queue import QueuedLoad

__all__ = ["Loader"]

PREPARE_TIMEOUT_S = 120.0  #: where the operator sets none: the model's own is not known yet


class Loader:
    """Runs one prepare child at a time, each when there is room for it."""

    def __init__(
        self,
        host: ModelHost,
        number: int,
        source: ModelSource,
        name: Callable[[], str],
        on_outcome: Callable[[PrepareOutcome, ModelFiles | None], object],
    ) -> None:
        """Do nothing yet.

        :param number: that of the model among all; it tells which user its workers run as.
        :param name: returns the model's name, as the log shows it.
        :param on_outcome: gets the end of each preparation, and the files if it went well.
        """
        self._host = host
        self._number = number
        self._source = source
        self._name = name
        self._on_outcome = on_outcome
        self._child: PrepareChild | None = None
        self._attempts = 0
        self._is_loading = False  #: it is being prepared, or a new version loads
        self._is_outdated = False  #: asked to load while it was loading
        self.is_stopping = False

    @property
    def pids(self) -> set[int]:
        """The prepare child, while it runs."""
        return {self._child.pid} if self._child else set()

    @property
    def _scratch(self) -> Path:
        """A directory of this attempt alone, for what a plugin gets from a URL."""
        return self._host.run_dir / "archives" / f"{self._number}-{self._attempts}"

    @property
    def _memory(self) -> Path:
        """A directory of this attempt in memory, for a decrypted archive."""
        return memory_twin(self._host.run_dir) / self._scratch.name

    def load(self) -> None:
        """Prepare the model when there is room, or once more when the current load is over."""
        if self._is_loading:
            self._is_outdated = True
        elif not self.is_stopping:
            self._is_loading = True
            self._host.preparations.ask(QueuedLoad(self, 0, self._prepare, lambda _reason: None))

    def settle(self) -> None:
        """Note that the load is over: the new version serves, or it does not and never will."""
        self._is_loading = False
        if self._is_outdated:
            self._is_outdated = False
            self._host.loop.defer(self.load)

    def stop(self) -> None:
        """Load nothing from now on."""
        self.is_stopping = True
        self.kill()

    def kill(self) -> None:
        """Kill the prepare child."""
        if self._child:
            self._child.kill()

    def _prepare(self) -> None:
        self._attempts += 1
        self._host.reporter.progress(self._name(), "preparing")
        try:
            self._child = PrepareChild(
                self._host.loop,
                self._request(),
                self._host.settings.load_timeout or PREPARE_TIMEOUT_S,
                lambda line: self._host.reporter.line(self._name(), line),
                self._received,
            )
        except StartupError as error:
            self._received(PrepareOutcome(error=str(error)))
        except OSError as error:
            self._received(PrepareOutcome(error=f"cannot be prepared: {error.strerror}"))

    def _request(self) -> PrepareRequest:
        settings = self._host.settings
        return PrepareRequest(
            self._source.path,
            self._source.name,
            settings.cache_dir,
            settings.install_requirements,
            settings.fetch_assets,
            user_of_model(settings.worker_user, self._number, self._number + 1),
            str(self._scratch),
            list(settings.require_plugins),
            policy_of(settings),
            deployments_of(settings, self._source.name),
            str(self._memory),
            read_archive_keys(settings.archive_keys),
        )

    def _received(self, outcome: PrepareOutcome) -> None:
        if outcome.step:
            self._host.reporter.progress(self._name(), outcome.step)
            return
        self._child = None
        for directory in (self._scratch, self._memory):
            if outcome.model is None and directory.exists():  # the child was killed
                remove_in_background(directory)
        if not self.is_stopping:
            self._host.reporter.progress(self._name(), "")
            try:
                files = ModelFiles(outcome.model) if outcome.model else None
            except FilesRemoved:  # by another server that uses the cache
                self._prepare()
                return
            self._on_outcome(outcome, files)
            self._host.preparations.done(self)
        self._host.changed()
