# SPDX-License-Identifier: Apache-2.0
"""Describes an archive of MMS as a ``model.toml`` would."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from servekit_mms.archives import HandlerArchive, read_archive

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["describe_model"]

NAME: Final = re.compile(r"(?=.{1,64}$)[A-Za-z0-9](?:\.?[A-Za-z0-9_-])*\.?")
VERSION = NAME


def describe_model(directory: Path) -> Mapping[str, Any] | None:
    """Return the keys of a manifest for the archive in *directory*; ``None`` if it is not of MMS.

    :raises BootError: it is, and cannot be served.
    """
    archive = read_archive(directory)
    if archive is None:
        return None
    # the classes of 0.x take one request at a time, and so do handlers of 1.x by default
    offer: dict[str, Any] = {"service": "mms", "batching": {"max_batch_size": 1}}
    if isinstance(archive, HandlerArchive):
        name, version = archive.model.model_name, archive.model.model_version
        offer["envelope"] = False
        if VERSION.fullmatch(version):
            offer["version"] = version
    else:
        name = archive.model.name
    if NAME.fullmatch(name):
        offer["name"] = name
    if archive.model.description:
        offer["description"] = archive.model.description
    return offer
