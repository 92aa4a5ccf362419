# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of a ``model.toml`` that names the service ``sklearn``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from servekit.errors import BootError
from servekit_sklearn.hooks import model_files

__all__ = ["Method", "Options", "find_file", "read_options"]

Method = Literal["auto", "predict", "predict_proba", "transform", "decision_function"]


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Every key with its default."""

    file: str = ""  #: relative to the archive; "" takes the only .joblib or .skops file
    method: Method = "auto"
    trusted: list[str] = []  #: types a .skops file may hold beyond those skops trusts itself


def read_options(options: Mapping[str, Any]) -> Options:
    """Return *options* checked.

    :raises BootError: a key is unknown, or a value has the wrong type.
    """
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise BootError(f"[options]: {error}") from error


def find_file(directory: Path, file: str) -> Path:
    """Return the path of the model file.

    :raises BootError: it does not exist, or *file* is empty and there is no single candidate.
    """
    if file:
        if not (directory / file).is_file():
            raise BootError(f"[options] file: {file!r} is not in the archive")
        return directory / file
    found = model_files(directory)
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise BootError(f"[options] file: needed unless there is one .joblib or .skops; {names}")
    return found[0]
