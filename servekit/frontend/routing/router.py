# SPDX-License-Identifier: Apache-2.0
"""Finds the route of a request by its method and path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.http.targets import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.frontend.exchange.protocols import Find, PredictionRoute

__all__ = ["Router"]


class Router:
    """Finds who answers at a request target. Lookups never touch the file system."""

    def __init__(self) -> None:
        self._routes: dict[bytes, PredictionRoute] = {}
        self._calls: Mapping[tuple[str, str], PredictionRoute] = {}
        self.find_other: Find | None = None  #: is asked where no model has the path

    def replace(
        self,
        routes: Mapping[str, PredictionRoute],
        calls: Mapping[tuple[str, str], PredictionRoute],
    ) -> None:
        """Take over a new routing table.

        :param routes: by path.
        :param calls: by model and endpoint; "" is ``predict``.
        """
        self._routes = {path.encode(): way for path, way in routes.items()}
        self._calls = calls

    def find(
        self, method: bytes, target: bytes, headers: dict[bytes, bytes]
    ) -> PredictionRoute | None:
        """Return what answers, or ``None``: the Flask app knows all other routes."""
        if method == b"POST":
            way = self._routes.get(target)
            if way is None and (b"?" in target or b"%" in target):
                way = self._routes.get(path_of(target))
            if way is not None:
                return way
        return self.find_other(method, target, headers) if self.find_other is not None else None

    def find_call(self, model: str, endpoint: str) -> PredictionRoute | None:
        """Return what answers at *endpoint* of *model*; "" is ``predict``."""
        return self._calls.get((model, endpoint))

    def has(self, path: bytes) -> bool:
        """Whether a model answers at the decoded *path*."""
        return path in self._routes
