# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports nothing of scikit-learn."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servekit import hookimpl

__all__ = ["SUFFIXES", "model_files", "recognise_model", "register_services"]

SUFFIXES = (".joblib", ".skops")


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer the service ``sklearn``."""
    return {"sklearn": "servekit_sklearn.service:SklearnService"}


@hookimpl
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory that holds one ``.joblib`` or ``.skops`` file."""
    return {"service": "sklearn"} if len(model_files(directory)) == 1 else None


def model_files(directory: Path) -> list[Path]:
    """Return the files of *directory* (not below it) that may hold an estimator."""
    return sorted(path for path in directory.iterdir() if path.suffix in SUFFIXES)
