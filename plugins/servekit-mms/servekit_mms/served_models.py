# SPDX-License-Identifier: Apache-2.0
"""The models of a server that come from archives of MMS, loaded or not. Runs in: front-end."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from servekit.errors import BootError
from servekit_mms.archives import LegacyArchive, read_archive
from servekit_mms.description import Described, of_signature, of_view

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from servekit.extension import ModelView

__all__ = ["describe_own"]

TASK: Final = "mms"


def describe_own(models: Mapping[str, ModelView]) -> dict[str, Described]:
    """Return the descriptions of those of *models* that are of MMS, by name."""
    found = {name: _describe(view) for name, view in models.items()}
    return {name: each for name, each in found.items() if each is not None}


def _describe(view: ModelView) -> Described | None:
    """Return the description of *view*, also before its first worker is ready."""
    if view.interface is not None:
        return of_view(view) if view.interface.task == TASK else None
    return _describe_archive(view.directory) if view.directory is not None else None


@lru_cache(maxsize=256)  # front-ends ask again at every change of their models
def _describe_archive(directory: Path) -> Described | None:
    """Return what the archive in *directory* says; ``None`` if it is not one that can be served."""
    try:
        archive = read_archive(directory)
    except (BootError, OSError):
        return None
    if isinstance(archive, LegacyArchive):
        return of_signature(archive.signature)
    return Described((), is_picture=False) if archive is not None else None
