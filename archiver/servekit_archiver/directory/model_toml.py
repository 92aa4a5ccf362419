# SPDX-License-Identifier: Apache-2.0
"""Reads the ``model.toml`` of a model directory: the manifest as its author writes it."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from servekit_archiver.errors import ManifestError, refuse_os_errors
from servekit_archiver.limits import MODEL_TOML_BYTES, NESTING
from servekit_archiver.manifest import Manifest

__all__ = ["MODEL_TOML", "fill", "manifest_from_toml", "parse", "read"]

MODEL_TOML: Final = "model.toml"
WRITTEN_BY_US: Final = ("format", "created_by", "files", "lock")


def read(directory: Path) -> dict[str, Any] | None:
    """Return the tables of *directory*'s ``model.toml``, or ``None`` if there is none."""
    path = directory / MODEL_TOML
    if not path.is_file():
        return None
    with refuse_os_errors(path), path.open("rb") as file:
        content = file.read(MODEL_TOML_BYTES + 1)
    if len(content) > MODEL_TOML_BYTES:
        raise ManifestError([f"is larger than {MODEL_TOML_BYTES} bytes"], MODEL_TOML)
    return parse(content)


def parse(content: bytes | str) -> dict[str, Any]:
    """Return the tables of the TOML text *content*.

    :raises ManifestError: it is not TOML; the line is named.
    """
    try:
        return tomllib.loads(content if isinstance(content, str) else content.decode("utf-8"))
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 (byte {error.start})"
    except RecursionError:
        problem = f"is nested too deeply, limit {NESTING}"
    except ValueError as error:  # TOMLDecodeError, or a number of more digits than Python takes
        problem = f"is not TOML: {error}"
    raise ManifestError([problem], MODEL_TOML)


def manifest_from_toml(
    table: Mapping[str, Any], *, name: str, exists: Callable[[str], bool] | None = None
) -> Manifest:
    """Return the manifest that *table* describes; it lists no files yet.

    :param name: the model's name if *table* has none.
    :param exists: says whether the model has a file, for the keys that name one.
    :raises ManifestError: with every problem.
    """
    ours = [f"{key}: is written by the archiver; leave it out" for key in WRITTEN_BY_US]
    problems = [text for key, text in zip(WRITTEN_BY_US, ours, strict=True) if key in table]
    rest = {key: value for key, value in table.items() if key not in WRITTEN_BY_US}
    try:
        manifest = Manifest.from_mapping({"name": name, **rest}, exists=exists, source=MODEL_TOML)
    except ManifestError as error:
        raise ManifestError([*problems, *error.problems], MODEL_TOML) from None
    if problems:
        raise ManifestError(problems, MODEL_TOML)
    return manifest


def fill(table: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return *table* with the keys that it lacks taken from *more*, in nested tables too."""
    filled = {**more, **table}
    for key in table.keys() & more.keys():
        if isinstance(table[key], Mapping) and isinstance(more[key], Mapping):
            filled[key] = fill(table[key], more[key])
    return filled
