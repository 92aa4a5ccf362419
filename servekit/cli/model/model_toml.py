# SPDX-License-Identifier: Apache-2.0
"""Writes the SHA-256 of assets into a ``model.toml``, and changes nothing else in it."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servekit_archiver import Manifest
from servekit_archiver.directory.model_directory import default_name, describe_directory
from servekit_archiver.directory.model_toml import MODEL_TOML, manifest_from_toml

from servekit.errors import StartupError

__all__ = ["UNKNOWN", "read_unfinished", "write_digests"]

UNKNOWN = "0" * 64  #: in place of a SHA-256 that is not written down yet
KEY = re.compile(r"^[ \t]*sha256[ \t]*=.*$", re.MULTILINE)
NEXT_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def read_unfinished(directory: Path) -> Manifest:
    """Return the manifest of a model directory whose assets may lack their SHA-256.

    :raises StartupError: it is not a directory with a ``model.toml``.
    :raises ArchiveError: something else is wrong with it.
    """
    if not (directory / MODEL_TOML).is_file():
        raise StartupError(f"{directory}: --write needs a model directory with a {MODEL_TOML}")
    table = describe_directory(directory)
    if isinstance(assets := table.get("assets"), dict):
        tables = {name: asset for name, asset in assets.items() if isinstance(asset, dict)}
        filled = {name: {"sha256": UNKNOWN} | asset for name, asset in tables.items()}
        table = table | {"assets": assets | filled}
    return manifest_from_toml(
        table, name=default_name(directory), exists=lambda name: (directory / name).is_file()
    )


def write_digests(directory: Path, digests: Mapping[str, str]) -> None:
    """Write each SHA-256 into the table ``[assets.NAME]`` of the file.

    :raises StartupError: the file is written in a way that only its author can change.
    """
    path = directory / MODEL_TOML
    before = after = path.read_text(encoding="utf-8")
    for name, digest in digests.items():
        after = _with_digest(after, name, digest)
        if not _is_changed_alone(before, after, name, digest):
            raise StartupError(f'{path}: write it yourself: [assets.{name}] sha256 = "{digest}"')
        before = after
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(after, encoding="utf-8")
    draft.chmod(path.stat().st_mode)
    draft.replace(path)


def _with_digest(text: str, name: str, digest: str) -> str:
    head = re.compile(
        rf"^[ \t]*\[[ \t]*assets[ \t]*\.[ \t]*([\"']?){re.escape(name)}\1[ \t]*\][ \t]*(#.*)?$",
        re.MULTILINE,
    )
    found = head.search(text)
    if not found:
        return text
    following = NEXT_TABLE.search(text, found.end())
    end = following.start() if following else len(text)
    line, table = f'sha256 = "{digest}"', text[found.end() : end]
    table = KEY.sub(line, table, count=1) if KEY.search(table) else f"\n{line}{table or chr(10)}"
    return text[: found.end()] + table + text[end:]


def _is_changed_alone(before: str, after: str, name: str, digest: str) -> bool:
    """Say whether *after* differs from *before* in this one key only."""
    expected: dict[str, Any] = tomllib.loads(before)
    expected["assets"][name]["sha256"] = digest
    try:
        return tomllib.loads(after) == expected
    except tomllib.TOMLDecodeError:
        return False
