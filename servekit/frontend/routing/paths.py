# SPDX-License-Identifier: Apache-2.0
"""All paths at which models answer: their own, and those of each version below ``versions/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.routing.query_routes import QueryRoute
from servekit.ipc.table import path_of_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.routing.version_routes import Routes, Version
    from servekit.ipc.table import ModelRow

    #: model, version or alias, endpoint. Without a version, the rules for traffic choose it; the
    #: endpoint "" is ``predict``
    Call = tuple[str, str, str]

__all__ = ["Paths"]


class Paths:
    """Collects the routes of one routing table."""

    def __init__(self) -> None:
        self._own: dict[str, PredictionRoute] = {}
        self._below: dict[str, PredictionRoute] = {}  #: at paths that name a version
        self.calls: dict[Call, PredictionRoute] = {}
        self._gets: set[str] = set()  #: paths that answer GET

    @property
    def routes(self) -> dict[str, PredictionRoute]:
        """By path; a path that a manifest names comes first."""
        return self._below | self._own

    @property
    def gets(self) -> dict[str, PredictionRoute]:
        """The routes that answer GET, by path."""
        routes = self.routes
        return {path: QueryRoute(routes[path]) for path in self._gets if path in routes}

    def add(self, row: ModelRow, own: Routes, versions: Mapping[str, Version]) -> None:
        """Add the model *row*.

        :param own: answers where no version is named.
        """
        self._own |= own
        self._gets.update(route.path for route in row.routes if route.get)
        self._add_calls(row, "", own)
        aliases = row.traffic.aliases
        named = {alias: versions[name] for alias, name in aliases.items() if name in versions}
        for name, version in (named | dict(versions)).items():
            self._add_calls(version.row, name, version.routes)
            for path, route in version.routes.items():
                self._below[path_of_version(row.name, name, path)] = route
            self._gets.update(
                path_of_version(row.name, name, route.path)
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
