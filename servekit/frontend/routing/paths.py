# SPDX-License-Identifier: Apache-2.0
"""All paths at which models answer: their own, and those of each version below ``versions/``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from servekit.frontend.routing.query_routes import QueryRoute
from servekit.ipc.table import path_of_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.routing.version_routes import Routes, Version
    from servekit.ipc.table import ModelRow

__all__ = ["Call", "Paths"]

#: model, version or alias, endpoint. Without a version, the rules for traffic choose it; the
#: endpoint "" is ``predict``
Call = tuple[str, str, str]


@dataclass(slots=True)
class Paths:
    """The routes of a model, or of all models."""

    own: dict[bytes, PredictionRoute] = field(default_factory=dict)
    below: dict[bytes, PredictionRoute] = field(default_factory=dict)
    """Those at paths that name a version."""
    calls: dict[Call, PredictionRoute] = field(default_factory=dict)
    answer_get: set[bytes] = field(default_factory=set)  #: the paths that do

    @classmethod
    def of_model(cls, row: ModelRow, own: Routes, versions: Mapping[str, Version]) -> Paths:
        """Return those of the model *row*.

        :param own: answers where no version is named.
        """
        paths = cls({path.encode(): route for path, route in own.items()})
        paths.answer_get.update(route.path.encode() for route in row.routes if route.get)
        paths._add_calls(row, "", own)
        aliases = row.traffic.aliases
        named = {alias: versions[name] for alias, name in aliases.items() if name in versions}
        for name, version in (named | dict(versions)).items():
            paths._add_version(row.name, name, version)
        return paths

    @classmethod
    def of_all(cls, models: Iterable[Paths]) -> Paths:
        """Return those of all *models*; a later one wins."""
        paths = cls()
        for each in models:
            paths.own.update(each.own)
            paths.below.update(each.below)
            paths.calls.update(each.calls)
            paths.answer_get |= each.answer_get
        return paths

    @property
    def routes(self) -> dict[bytes, PredictionRoute]:
        """By path; a path that a manifest names comes first."""
        return self.below | self.own

    @property
    def gets(self) -> dict[bytes, PredictionRoute]:
        """The routes that answer GET, by path."""
        routes = self.routes if self.answer_get else {}
        return {path: QueryRoute(routes[path]) for path in self.answer_get if path in routes}

    def _add_version(self, model: str, name: str, version: Version) -> None:
        self._add_calls(version.row, name, version.routes)
        for path, route in version.routes.items():
            self.below[path_of_version(model, name, path).encode()] = route
        self.answer_get.update(
            path_of_version(model, name, route.path).encode()
            for route in version.row.routes
            if route.get
        )

    def _add_calls(self, row: ModelRow, version: str, routes: Routes) -> None:
        for endpoint, path in _endpoints(row):
            if path in routes:
                self.calls[row.name, version, endpoint] = routes[path]


def _endpoints(row: ModelRow) -> Iterator[tuple[str, str]]:
    """Yield the endpoints of a version, and their paths."""
    yield "", f"/{row.name}/predict"
    for route in row.routes:
        if len(route.steps) == 1 and route.steps[0].target and not route.problem:
            yield route.steps[0].target, route.path
