# SPDX-License-Identifier: Apache-2.0
"""The interface of the registry that a model, its versions and its replicas use."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from servekit.ipc.table import ModelRow
from servekit.settings import Settings
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.replicas.load_queue import LoadQueue
from servekit.supervisor.reporting.reporter import Reporter

__all__ = ["ModelHost"]


class ModelHost(Protocol):
    """The registry, as its models see it."""

    loop: Loop
    settings: Settings
    reporter: Reporter
    run_dir: Path
    preparations: LoadQueue  #: for the prepare children
    loads: LoadQueue  #: for the workers that boot

    def changed(self) -> object:
        """Publish a new routing table: something in it has changed."""

    def launching(self) -> None:
        """Note that workers of a model are about to be launched for the first time."""

    def total_replicas(self) -> int:
        """Return how many workers there will be, as far as that is known."""

    def name_problem(self, model: object, name: str) -> str:
        """Return why *model* cannot have *name*, or ""."""

    def call_problem(self, model: object, name: str, calls: Sequence[str]) -> str:
        """Return the cycle of calls that *model* would be part of, or ""."""

    def path_problem(self, model: object, row: ModelRow) -> str:
        """Return which paths of *row*, which belongs to *model*, are taken, or ""."""
