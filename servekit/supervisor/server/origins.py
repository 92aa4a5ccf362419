# SPDX-License-Identifier: Apache-2.0
"""Where the models of a server come from: the configuration and the model store."""

from collections.abc import Callable, Sequence

from servekit.settings import Settings
from servekit.settings.models import ModelSource, model_sources
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.reconfiguring import reconfigure
from servekit.supervisor.models.registry import ModelRegistry
from servekit.supervisor.models.saved_models import SavedModel, names_loaded
from servekit.supervisor.operations.server import OperatedServer
from servekit.supervisor.preparing.watcher import FileWatcher
from servekit.supervisor.reporting.journal import Journal
from servekit.supervisor.server.configuration import Configuration, Read
from servekit.supervisor.store.model_store import FirstLook, ModelStore

__all__ = ["Origins"]


class Origins:
    """The configuration, the model store, and the children that watch files."""

    def __init__(
        self, settings: Settings, read: Read | None, saved: Sequence[SavedModel], journal: Journal
    ) -> None:
        """Look where each model is; what *settings* name wins over the store. Blocks.

        :param saved: what was changed at run time, by an earlier server.
        :raises StartupError: a path cannot be used.
        """
        self._configuration = Configuration(settings, read, journal.notice)
        loaded = names_loaded(saved)
        may_be_none = bool(settings.state_file)
        self._configured = model_sources(settings, loaded, may_be_none=may_be_none)
        self._found = FirstLook(settings, self._configured, loaded, journal)
        self._watcher: FileWatcher | None = None
        self._store: ModelStore | None = None

    @property
    def settings(self) -> Settings:
        """The settings of this moment."""
        return self._configuration.settings

    @property
    def first(self) -> list[ModelSource]:
        """The models to begin with."""
        return [*self._configured, *self._found.sources]

    @property
    def pids(self) -> set[int]:
        """The children that watch."""
        pids = {each.pid for each in (self._watcher, self._store) if each is not None}
        return {pid for pid in pids if pid is not None}

    def start(self, server: OperatedServer, save: Callable[[], object]) -> None:
        """Watch, if that is wanted.

        :param server: has the models of ``first``.
        :param save: writes the state file.
        :raises OSError: a child cannot be started.
        """
        if self.settings.reload:
            registry = server.registry
            self._watcher = FileWatcher(
                server.loop, registry.reporter, self._configured, registry.load_configured
            )
        if self.settings.model_store:
            self._store = ModelStore(server, self.settings.model_store, self._found, save)
            if self.settings.watch:
                self._store.watch()

    def loading(self) -> None:
        """Note that all models of ``first`` begin to load."""
        if self._store:
            self._store.check_first()

    def may_recover(self, model: Model) -> bool:
        """Whether *model*, which has failed, may still load from another archive of the store."""
        return self._store is not None and self._store.is_following(model)

    def reload(self, registry: ModelRegistry) -> bool:
        """Read the settings and the store again, and load what has changed.

        :return: whether the settings were accepted; if not, nothing changes.
        """
        loaded = [model.name for model in registry if not model.configured]
        sources = self._configuration.renew(loaded)
        if sources is None:
            return False
        stored = self._store.beside(sources) if self._store else []
        reconfigure(registry, self.settings, [*sources, *stored])
        if self._store:
            self._store.refresh()
        return True

    def kill(self) -> None:
        """Kill the children."""
        for child in (self._watcher, self._store):
            if child is not None:
                child.kill()
