# SPDX-License-Identifier: Apache-2.0
"""Names, paths and calls that two models cannot both have."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from servekit.ipc.table import ModelRow
from servekit.settings.models import name_clash
from servekit.supervisor.models.calls import cycle_problem
from servekit.supervisor.models.routes import clashes
from servekit.supervisor.models.version_source import VersionSource
from servekit.supervisor.preparing.messages import PreparedModel

__all__ = ["Claimant", "Claims"]


class Claimant(Protocol):
    """A model, as far as others can be in its way."""

    @property
    def source(self) -> VersionSource:
        """Where it is from."""

    @property
    def prepared(self) -> PreparedModel | None:
        """Its default version, if there is one."""

    def row(self) -> ModelRow:
        """Return its row of the routing table."""


class Claims:
    """Judges what a model wants to have by what the others have."""

    def __init__(self, models: Iterable[Claimant], on_name_clash: Callable[[str], object]) -> None:
        """Judge by *models*, as they are when something is asked.

        :param on_name_clash: gets the problem when two models have the same name.
        """
        self._models = models
        self._on_name_clash = on_name_clash

    def name_problem(self, model: Claimant, name: str) -> str:
        """Return why *model* cannot have *name*, or ""."""
        others = [(each.name, each.source) for each in self._others(model)]
        clash = name_clash([*others, (name, model.source.shown)])
        if not clash:
            return ""
        problem = f"{clash}; use NAME=PATH"
        self._on_name_clash(problem)
        return problem

    def call_problem(self, model: Claimant, name: str, calls: Sequence[str]) -> str:
        """Return the cycle of calls that *model* would be part of, or ""."""
        known = {each.name: each.calls for each in self._others(model)}
        return cycle_problem(name, {**known, name: calls})

    def path_problem(self, model: Claimant, row: ModelRow) -> str:
        """Return which paths of *row*, which belongs to *model*, are taken, or ""."""
        others = [each.row() for each in self._models if each is not model]
        found = (clash for clash in clashes([*others, row]) if clash.row is row)
        return "; ".join(f"the path {clash.route.path} belongs to {clash.owner}" for clash in found)

    def _others(self, model: Claimant) -> list[PreparedModel]:
        return [each.prepared for each in self._models if each is not model and each.prepared]
