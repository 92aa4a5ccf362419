# SPDX-License-Identifier: Apache-2.0
"""A line of the report of ``servekit migrate``."""

from dataclasses import dataclass

__all__ = ["MigrationRow"]


@dataclass(frozen=True, slots=True)
class MigrationRow:
    """A setting of the other format, and what became of it."""

    before: str  #: in its words: ``minWorkers: 2``
    now: str = ""  #: in ours: ``[worker] replicas = 2``; "" if it has no counterpart
    note: str = ""  #: what differs, or what to do instead
