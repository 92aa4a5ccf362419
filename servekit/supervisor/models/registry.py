# SPDX-License-Identifier: Apache-2.0
"""All models of the server, and what they share."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from servekit.ipc.control import Hung
from servekit.ipc.table import ModelRow
from servekit.settings import Settings
from servekit.settings.models import ModelSource, name_clash
from servekit.supervisor.models.calls import cycle_problem
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.routes import clashes, note_clashes
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
        run_dir: Path,
        reporter: Reporter,
        on_change: Callable[[], object],
        on_name_clash: Callable[[str], object],
    ) -> None:
        """Load nothing yet.

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
        self._on_name_clash = on_name_clash
        passed = [name for each in settings.deployments for name in each.pass_env]
        self._withheld = withheld(os.environ, [*settings.pass_env, *passed])
        self._models = [Model(self, number, source) for number, source in enumerate(sources)]

    def __iter__(self) -> Iterator[Model]:
        """Iterate over the models, in the order of the sources."""
        return iter(self._models)

    def __len__(self) -> int:
        """Return how many models there are, loaded or not."""
        return len(self._models)

    @property
    def pids(self) -> set[int]:
        """The children that run now."""
        return set().union(*(model.pids for model in self._models))

    @property
    def has_settled(self) -> bool:
        """Whether the first load of every model is over."""
        return all(model.has_settled for model in self._models)

    @property
    def is_loading(self) -> bool:
        """Whether a model is being prepared, or a worker boots."""
        return not (self.preparations.is_idle and self.loads.is_idle)

    def rows(self) -> list[ModelRow]:
        """Return the rows of the routing table."""
        return note_clashes([model.row() for model in self._models])

    def load(self) -> None:
        """Load every model, or look whether it has changed."""
        for model in self._models:
            model.load()

    def load_one(self, number: int) -> None:
        """Load the model of source *number*, which has changed."""
        self._models[number].load()

    def hung(self, hung: Hung) -> None:
        """Kill a worker that a front-end found stuck."""
        for model in self._models:
            if model.name == hung.model:
                model.hung(hung)

    def stop(self) -> None:
        """Let the workers leave, and load nothing any more."""
        self.preparations.close()
        self.loads.close()
        for model in self._models:
            model.stop()

    def kill(self, reason: str) -> None:
        """Kill all that runs for the models."""
        for model in self._models:
            model.kill(reason)

    # ------------------------------------------------------------------ what models ask

    def launching(self) -> None:
        """Say once which variables workers do not get."""
        found, self._withheld = self._withheld, {}
        for level, names in found.items():
            self.reporter.notice(notices.variables_withheld(names, level))

    def total_replicas(self) -> int:
        """Return how many workers there will be, as far as that is known."""
        return sum(model.replica_count for model in self._models)

    def name_problem(self, model: object, name: str) -> str:
        """Return why *model* cannot have *name*, or ""."""
        others = [each.name for each in self._models if each is not model and each.is_launched]
        pair = name_clash([*others, name])
        if not pair:
            return ""
        problem = f"{pair[0]} and {pair[1]} are the same name; use NAME=PATH"
        self._on_name_clash(problem)
        return problem

    def call_problem(self, model: object, name: str, calls: Sequence[str]) -> str:
        """Return the cycle of calls that *model* would be part of, or ""."""
        others = [each for each in self._models if each is not model]
        known = {each.name: each.current.prepared.calls for each in others if each.current}
        return cycle_problem(name, {**known, name: calls})

    def path_problem(self, model: object, row: ModelRow) -> str:
        """Return which paths of *row*, which belongs to *model*, are taken, or ""."""
        others = [each.row() for each in self._models if each is not model]
        found = (clash for clash in clashes([*others, row]) if clash.row is row)
        return "; ".join(f"the path {clash.route.path} belongs to {clash.owner}" for clash in found)
