# SPDX-License-Identifier: Apache-2.0
"""Finds the route of a request by its method and path."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from servekit.frontend.http.targets import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit.frontend.exchange.protocols import Find, PredictionRoute
    from servekit.frontend.routing.paths import Call

__all__ = ["KeptRoutes", "Router"]

NO_ROUTES: Final[Mapping[bytes, PredictionRoute]] = MappingProxyType({})


class KeptRoutes(NamedTuple):
    """The routes of POST requests with one target, which protocols have found."""

    names: Sequence[bytes]  #: headers that decide between them, in lower case
    routes: dict[tuple[bytes | None, ...], PredictionRoute]  #: by the values of these


class Router:
    """Finds the routes of predictions. Lookups never touch the file system."""

    def __init__(self) -> None:
        self._routes: Mapping[bytes, PredictionRoute] = {}
        self._gets: Mapping[bytes, PredictionRoute] = {}
        self._calls: Mapping[Call, PredictionRoute] = {}
        self.find_other: Find | None = None  #: called for paths that no model has
        #: by target, what ``find_other`` keeps until there is a new routing table
        self.kept: dict[bytes, KeptRoutes] = {}

    def replace(
        self,
        routes: Mapping[bytes, PredictionRoute],
        calls: Mapping[Call, PredictionRoute],
        gets: Mapping[bytes, PredictionRoute] = NO_ROUTES,
    ) -> None:
        """Take over a new routing table.

        :param routes: by path; not changed afterwards, as the other two.
        :param gets: the routes that answer GET, by path.
        """
        self._routes, self._gets, self._calls = routes, gets, calls
        self.kept = {}

    def find(
        self, method: bytes, target: bytes, headers: dict[bytes, bytes]
    ) -> PredictionRoute | None:
        """Return what answers, or ``None``: the Flask app knows all other routes."""
        if method == b"POST":
            route = self._routes.get(target)
            if route is None and (b"?" in target or b"%" in target):
                route = self._routes.get(path_of(target))
            if route is not None:
                return route
        elif method == b"GET" and self._gets:
            route = self._gets.get(path_of(target))
            if route is not None:
                return route
        return self.find_other(method, target, headers) if self.find_other is not None else None

    def find_call(
        self, model: str, endpoint: str = "", version: str = ""
    ) -> PredictionRoute | None:
        """Return what answers at *endpoint* of *model*; "" is ``predict``.

        :param version: or an alias; "" is any.
        """
        return self._calls.get((model, version, endpoint))

    def has(self, path: bytes) -> bool:
        """Whether a model answers at the decoded *path*."""
        return path in self._routes
