# SPDX-License-Identifier: Apache-2.0
"""The source of a version of a model."""

from pathlib import Path
from typing import Any

from msgspec import Struct

from servekit.settings.deployments import Deployment
from servekit.settings.model_tables import read_deployment
from servekit.settings.models import ModelSource

__all__ = ["RUN_TIME", "LoadFailed", "LoadRefused", "VersionSource"]

RUN_TIME = "run time"  #: the source of what an operation sets, as people know it


class VersionSource(Struct, frozen=True):
    """An archive, a model directory or a URL, and how an operator wants it served."""

    path: str  #: absolute, or a URL that a plugin opens
    name: str = ""  #: the name to serve it under; "" takes the manifest's
    settings: dict[str, Any] = {}  #: given at run time: as in ``[models.NAME]``

    @property
    def shown(self) -> str:
        """The path or URL without what may be a secret."""
        return ModelSource(self.path).shown

    @property
    def deployment(self) -> Deployment:
        """Its settings.

        :raises ValueError: one is refused.
        """
        return read_deployment(self.name, self.settings, RUN_TIME, Path("/"))

    @property
    def sets_replicas(self) -> bool:
        """Whether its settings say how many replicas there are."""
        given = self.deployment
        return any(each.replicas is not None for each in (given, *given.stages.values()))


class LoadFailed(Exception):
    """A version cannot be prepared or loaded; the message says why, a line for each problem."""


class LoadRefused(LoadFailed):
    """The policy, or a plugin, does not allow it to be served."""
