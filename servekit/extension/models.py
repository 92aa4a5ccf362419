# SPDX-License-Identifier: Apache-2.0
"""A model, as plugins see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
