# SPDX-License-Identifier: Apache-2.0
"""All models of the server, and the things that they share."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from servekit.ipc.control import Hung
from servekit.ipc.table import ModelRow
from servekit.settings import Settings
from servekit.settings.models import ModelSource
from servekit.supervisor.models.claims import Claims
from servekit.supervisor.models.memory import ModelMemory
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.reloading import load
from servekit.supervisor.models.routes import note_clashes
from servekit.supervisor.models.saved_models import ModelStart, SavedModel
from servekit.supervisor.models.version_source import VersionSource
from servekit.supervisor.os.environment import withheld
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.resources import available_bytes, usable_cores
from servekit.supervisor.replicas.load_queue import LoadQueue
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.reporter import Reporter

__all__ = ["ModelRegistry"]


class ModelRegistry:
    """Makes the models, and judges what two of them cannot both have."""

    def __init__(
        self,
        loop: Loop,
        settings: Settings,
        sources: Sequence[ModelSource],
        starts: Sequence[ModelStart],
        run_dir: Path,
        reporter: Reporter,
        on_change: Callable[[], object],
        on_name_clash: Callable[[str], object],
    ) -> None:
        """Load nothing yet.

        :param sources: those of the configuration.
        :param on_change: called when a row of the routing table has changed.
        :param on_name_clash: gets the problem when two manifests have the same name.
        """
        self.loop = loop
        self.settings = settings
        self.sources = sources
        self.run_dir = run_dir
        self.reporter = reporter
        self.changed = on_change
        self.loads = LoadQueue(usable_cores(), available_bytes)
        self.preparations = LoadQueue(usable_cores(), lambda: None)
        self.claims = Claims(self, on_name_clash)
        self.memory = ModelMemory(self)
        passed = [name for each in settings.deployments for name in each.pass_env]
        self._withheld = withheld(os.environ, [*settings.pass_env, *passed])
        self._hidden: list[Model] = []  # newcomers whose names are not known, and those that leave
        self.unloaded: list[SavedModel] = []  #: models of the configuration
        self._models: list[Model] = []
        for start in starts:
            self._models.append(model := Model(self, len(self._models), start.source, self.load))
            model.configured = start.configured
            if start.saved is not None:
                model.restore(start.saved)

    def __iter__(self) -> Iterator[Model]:
        """Iterate over the models, in the order of the sources."""
        return iter(self._models)

    @property
    def pids(self) -> set[int]:
        """The children that run now."""
        return set().union(*(model.pids for model in [*self._models, *self._hidden]))

    @property
    def is_loading(self) -> bool:
        """Whether a model is being prepared, or a worker boots."""
        return not (self.preparations.is_idle and self.loads.is_idle)

    def rows(self) -> list[ModelRow]:
        """Return the rows of the routing table."""
        return note_clashes([model.row() for model in self._models])

    @property
    def saved(self) -> list[SavedModel]:
        """The models that were changed at run time, for a server that starts later."""
        return [*self.unloaded, *(model.saved for model in self._models if model.is_changed)]

    @property
    def coming(self) -> set[str]:
        """The models of the configuration that are not in the table until they have loaded."""
        return {model.configured for model in self._hidden if model.work.doing}

    def find(self, name: str) -> Model | None:
        """Return the model that is served under *name*."""
        return next((model for model in self._models if model.name == name), None)

    # ------------------------------------------------------------------ in and out

    def newcomer(self, source: VersionSource) -> Model:
        """Return a model that is not in the table until ``add``; ``remove`` forgets it."""
        taken = {model.number for model in [*self._models, *self._hidden]}
        number = next(each for each in itertools.count() if each not in taken)
        model = Model(self, number, source, self.load)
        self._hidden.append(model)
        return model

    def add(self, newcomer: Model) -> None:
        """Serve *newcomer*, whose name is known now."""
        self._hidden.remove(newcomer)
        self._models.append(newcomer)
        self.changed()

    def remove(self, model: Model) -> None:
        """Serve *model* no longer, and forget it when its workers have left."""
        if model in self._models:
            self._models.remove(model)
            self._hidden.append(model)
            if model.configured:
                gone = SavedModel(configured=model.configured, name=model.name, default=None)
                self.unloaded.append(gone)
        for version in list(model.versions):
            model.versions.retire(version, "unloaded")
        self.sweep()
        self.changed()

    def sweep(self) -> None:
        """Forget the removed models that have no processes any more."""
        self._hidden = [model for model in self._hidden if model.work.doing or model.pids]

    # ------------------------------------------------------------------ all of them

    def load_all(self) -> None:
        """Load every model, or look whether it has changed."""
        for model in self._models:
            self.load(model)

    def load_configured(self, source: ModelSource) -> None:
        """Load the model that the configuration names so, whose files have changed."""
        for model in self._models:
            if model.configured == source.text:
                self.load(model)

    def load(self, model: Model) -> None:
        """Load *model*, or look whether its source has changed; later if it is busy."""
        if model.work.doing:
            model.work.is_outdated = True
        elif model in self._models and not model.is_stopping:
            model.work.begin("reload", load(self, model))

    def hung(self, hung: Hung) -> None:
        """Kill a worker that a front-end found stuck."""
        for model in [*self._models, *self._hidden]:
            replicas = (each for version in model.versions for each in version.everyone)
            if any(replica.row.address == hung.address for replica in replicas):
                model.hung(hung)

    def stop(self) -> None:
        """Let the workers leave, and load nothing any more."""
        self.preparations.close()
        self.loads.close()
        for model in [*self._models, *self._hidden]:
            model.stop()

    def kill(self, reason: str) -> None:
        """Kill all that runs for the models."""
        for model in [*self._models, *self._hidden]:
            model.kill(reason)

    # ------------------------------------------------------------------ what models ask

    def launching(self) -> None:
        """Say once which variables workers do not get."""
        found, self._withheld = self._withheld, {}
        for level, names in found.items():
            self.reporter.notice(notices.variables_withheld(names, level))

    def total_replicas(self) -> int:
        """Return how many workers there will be, as far as that is known."""
        newcomers = sum(model.versions.size for model in self._hidden)
        return newcomers + sum(model.replica_count for model in self._models)
