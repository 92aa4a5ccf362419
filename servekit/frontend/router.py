# SPDX-License-Identifier: Apache-2.0
"""Which model a request is for: rows of one table, method and path to the model's batcher."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.targets import path_of

if TYPE_CHECKING:
    from servekit.frontend.batcher import Batcher

__all__ = ["Router"]


class Router:
    """Finds the batcher of a request target. Lookups never touch the file system."""

    def __init__(self) -> None:
        self._routes: dict[bytes, Batcher] = {}

    def replace(self, models: dict[str, Batcher]) -> None:
        """Take the models of a new routing table."""
        self._routes = {f"/{name}/predict".encode(): batcher for name, batcher in models.items()}

    def find(self, method: bytes, target: bytes) -> Batcher | None:
        """Return the batcher that answers, or ``None``: the Flask app knows all other routes."""
        if method != b"POST":
            return None
        batcher = self._routes.get(target)
        if batcher is None and (b"?" in target or b"%" in target):
            return self._routes.get(path_of(target))
        return batcher
