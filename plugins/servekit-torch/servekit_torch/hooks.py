# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports nothing of PyTorch."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import Diagnosis
    from servekit.settings import Settings

__all__ = [
    "SUFFIXES",
    "check_setup",
    "is_program",
    "is_script",
    "recognise_model",
    "register_services",
]

DEVICES = Path("/dev")
WHOLE = (".pt2", ".pt", ".pth")  #: suffixes of files that may hold a whole model
SUFFIXES = (*WHOLE, ".safetensors")


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer the service ``torch``."""
    return {"torch": "servekit_torch.service:TorchService"}


@hookimpl
def check_setup(settings: "Settings") -> "Iterable[Diagnosis]":
    """Look whether PyTorch can use the GPUs of this machine; it is not imported."""
    from importlib import metadata  # no other process needs them

    from servekit.extension import Diagnosis

    del settings
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return []  # servekit doctor says so of every package
    if not version.endswith("+cpu") or not any(DEVICES.glob("nvidia[0-9]*")):
        return []
    return [
        Diagnosis(
            severity="warning",
            text=f"there are GPUs, and torch {version} cannot use them",
            meaning="Models run on processors.",
            fix="pip install --force-reinstall torch --index-url https://pypi.org/simple",
        )
    ]


@hookimpl
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory with exactly one model that needs no class.

    That is a file of ``torch.export`` or of TorchScript.
    """
    found = [path for path in directory.iterdir() if path.suffix in WHOLE]
    is_whole = len(found) == 1 and (is_program(found[0]) or is_script(found[0]))
    return {"service": "torch"} if is_whole else None


def is_program(path: Path) -> bool:
    """Whether the file is a program of ``torch.export``, which may be called ``.pt`` as well."""
    return path.suffix == ".pt2" or any(name.endswith("/archive_format") for name in _names(path))


def is_script(path: Path) -> bool:
    """Whether the file is a TorchScript archive: a zip file with code among its entries."""
    return any("/code/" in name for name in _names(path))


def _names(path: Path) -> list[str]:
    """Return the names in a zip file; none in any other file."""
    from zipfile import ZipFile  # most commands look at no model

    try:
        with ZipFile(path) as archive:
            return archive.namelist()
    except Exception:  # noqa: BLE001 - a broken file raises anything
        return []
