# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports nothing of scikit-learn."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servekit import hookimpl

__all__ = ["SUFFIXES", "model_files", "recognise_model", "register_services"]

OWN = (".joblib", ".skops")  #: suffixes of files that others hardly write
SUFFIXES = (*OWN, ".pkl", ".pickle")
PICKLES = ("model.pkl", "model.pickle")


@hookimpl
def register_services() -> Mapping[str, str]:
    """Offer the service ``sklearn``."""
    return {"sklearn": "servekit_sklearn.service:SklearnService"}


@hookimpl
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Claim a directory that holds one file with an estimator."""
    found = model_files(directory)
    if len(found) != 1:
        return None
    is_pickle = found[0].name in PICKLES
    return {"service": "sklearn"} | ({"options": {"file": found[0].name}} if is_pickle else {})


def model_files(directory: Path) -> list[Path]:
    """Return the files of *directory* (not below it) that may hold an estimator.

    A pickle may hold anything, such as the vocabulary of another model: it has to be called so.
    """
    return sorted(
        path for path in directory.iterdir() if path.suffix in OWN or path.name in PICKLES
    )
