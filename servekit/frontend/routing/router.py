# SPDX-License-Identifier: Apache-2.0
"""Who answers a request: rows of one table, method and path to a batcher, or several steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.http.targets import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.frontend.exchange.protocols import Route

__all__ = ["Router"]


class Router:
    """Finds who answers at a request target. Lookups never touch the file system."""

    def __init__(self) -> None:
        self._routes: dict[bytes, Route] = {}

    def replace(self, routes: Mapping[str, Route]) -> None:
        """Take the paths of a new routing table."""
        self._routes = {path.encode(): way for path, way in routes.items()}

    def find(self, method: bytes, target: bytes) -> Route | None:
        """Return what answers, or ``None``: the Flask app knows all other routes."""
        if method != b"POST":
            return None
        way = self._routes.get(target)
        if way is None and (b"?" in target or b"%" in target):
            return self._routes.get(path_of(target))
        return way
