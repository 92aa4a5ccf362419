# SPDX-License-Identifier: Apache-2.0
"""A model, as plugins see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.ipc.table import Interface

__all__ = ["ModelView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """One version of a model that is served, or will be once it has loaded."""

    name: str
    version: str
    #: input and output of its ``predict``: signature, JSON schemas, media types; ``None`` until a
    #: worker of the model has been ready
    interface: Interface | None
    #: for the default version: the other loaded versions by name, and all of them by their aliases
    others: Mapping[str, ModelView] = field(default_factory=dict)

    def find_version(self, name: str) -> ModelView | None:
        """Return the version or the alias *name*; "" is this one."""
        return self if name in ("", self.version) else self.others.get(name)
