# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports nothing of PyTorch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servekit import hookimpl

__all__ = ["SUFFIXES", "is_script", "recognise_model", "register_services"]

WHOLE = (".pt2", ".pt", ".pth")  #: suffixes of files that may hold a whole model
SUFFIXES = (*WHOLE, ".safetensors")


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer the service ``torch``."""
    return {"torch": "servekit_torch.service:TorchService"}


@hookimpl
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory with exactly one model that needs no class.

    That is a ``.pt2`` file, or a ``.pt`` or ``.pth`` file of TorchScript.
    """
    found = [path for path in directory.iterdir() if path.suffix in WHOLE]
    is_whole = len(found) == 1 and (found[0].suffix == ".pt2" or is_script(found[0]))
    return {"service": "torch"} if is_whole else None


def is_script(path: Path) -> bool:
    """Whether the file is a TorchScript archive: a zip file with code among its entries."""
    from zipfile import ZipFile  # most commands look at no model

    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except Exception:  # noqa: BLE001 - a broken file raises anything
        return False
    return any("/code/" in name for name in names)
