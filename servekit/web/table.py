# SPDX-License-Identifier: Apache-2.0
"""Looks things up in the routing table."""

from collections.abc import Callable
from typing import Generic, TypeVar

from servekit.errors import ModelNotFound
from servekit.ipc.table import ModelRow, Table
from servekit.web.errors import quoted

__all__ = ["OncePerTable", "find_model"]

T = TypeVar("T")


def find_model(table: Table, name: str) -> ModelRow:
    """Return the model called *name*.

    :raises ModelNotFound: there is none.
    """
    for row in table.models:
        if row.name == name:
            return row
    raise ModelNotFound(f"no model is called {quoted(name)}")


class OncePerTable(Generic[T]):
    """Remembers what was built from the current table; a new table replaces it whole."""

    def __init__(self, build: Callable[[Table], T]) -> None:
        """Store; *build* is called when a table is seen for the first time."""
        self._build = build
        self._last: tuple[Table, T] | None = None

    def __call__(self, table: Table) -> T:
        """Return ``build(table)``; treat it as read-only."""
        if self._last is None or self._last[0] is not table:
            self._last = (table, self._build(table))
        return self._last[1]
