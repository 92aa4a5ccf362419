# SPDX-License-Identifier: Apache-2.0
"""The interface of the registry that a model, its versions and its replicas use."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from servekit.settings import Settings
from servekit.settings.models import ModelSource
from servekit.supervisor.models.claims import Claims
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.preparing.messages import PreparedModel
from servekit.supervisor.replicas.load_queue import LoadQueue
from servekit.supervisor.reporting.reporter import Reporter

__all__ = ["Measured", "ModelHost"]


class Measured(Protocol):
    """A version, as far as its memory is concerned."""

    prepared: PreparedModel

    @property
    def version(self) -> str:
        """The version that the manifest names."""

    @property
    def size(self) -> int:
        """How many replicas it has, or will have."""


class Room(Protocol):
    """The memory for models."""

    def lacks(self, version: Measured) -> bool:
        """Whether there is no room for *version*."""


class ModelHost(Protocol):
    """The registry, as its models see it."""

    loop: Loop
    settings: Settings
    sources: Sequence[ModelSource]  #: those of the configuration
    reporter: Reporter
    run_dir: Path
    preparations: LoadQueue  #: for the prepare children
    loads: LoadQueue  #: for the workers that boot
    claims: Claims

    @property
    def memory(self) -> Room:
        """The memory for models."""

    def changed(self) -> object:
        """Publish a new routing table: something in it has changed."""

    def launching(self) -> None:
        """Note that workers of a model are about to be launched for the first time."""

    def total_replicas(self) -> int:
        """Return how many workers there will be, as far as that is known."""
