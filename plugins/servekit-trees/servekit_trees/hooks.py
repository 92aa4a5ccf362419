# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports neither XGBoost nor LightGBM."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from servekit import hookimpl

__all__ = ["library_of", "model_files", "recognise_model", "register_services"]

START: Final = 4096  #: bytes of a file that tell what it is
SUFFIXES: Final = (".ubj", ".json", ".txt", ".bst", ".xgb", ".lgb", ".model")


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer the service ``trees``."""
    return {"trees": "servekit_trees.service:TreesService"}


@hookimpl
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory that holds one model of XGBoost or LightGBM, as its content says."""
    return {"service": "trees"} if len(model_files(directory)) == 1 else None


def model_files(directory: Path) -> list[Path]:
    """Return the files of *directory*, not below it, that are models."""
    found = (path for path in directory.iterdir() if path.suffix in SUFFIXES and path.is_file())
    return sorted(path for path in found if library_of(path))


def library_of(path: Path) -> str:
    """Return ``xgboost`` or ``lightgbm``, whichever has written *path*; "" for another file."""
    with path.open("rb") as file:
        start = file.read(START)
    is_ubjson = start.startswith(b"{L") and b"learner" in start
    is_json = start.lstrip().startswith(b"{") and b'"learner"' in start
    if is_ubjson or is_json:
        return "xgboost"
    return "lightgbm" if start.startswith(b"tree\nversion=") else ""
