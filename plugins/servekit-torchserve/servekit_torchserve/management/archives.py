# SPDX-License-Identifier: Apache-2.0
"""Where an archive is, and what it says its name and version are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zipfile import BadZipFile, ZipFile

import msgspec

from servekit_torchserve.management.errors import UnknownModel

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ArchiveIdentity", "identity_of", "is_torchserve", "locate"]

MANIFEST: Final = "MAR-INF/MANIFEST.json"
DEFAULT_VERSION: Final = "1.0"
MAX_MANIFEST: Final = 64 << 20  #: bytes; one of servekit lists every file


class ArchiveIdentity(NamedTuple):
    """Name and version by the manifest of an archive; "" if they are not known yet."""

    name: str
    version: str


def locate(url: str, model_store: Path | None) -> str:
    """Return *url* if it is one; otherwise the path of the archive of that name.

    A name is looked up in the model store and must not lead out of it.

    :raises UnknownModel: there is no such archive.
    """
    scheme, mark, rest = url.partition("://")
    if mark and scheme != "file":
        return url
    path = Path(rest if mark else url)
    if not url or ".." in path.parts:
        raise UnknownModel(f"there is no archive {url!r}")
    if path.is_absolute():
        found: Path | None = path
    else:
        found = model_store / path if model_store is not None else None
    if found is None or not _exists(found):
        raise UnknownModel(f"there is no archive {url!r} in the model store")
    return str(found)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long for a file
        return False


def identity_of(source: str) -> ArchiveIdentity:
    """Return the name and version of the archive at *source*, one of TorchServe or of ours."""
    return _identity(_read(source))


def is_torchserve(source: str) -> bool:
    """Whether the archive at *source* is one of TorchServe; false for what cannot be read."""
    return isinstance(_read(source).get("model"), dict)


def _read(source: str) -> dict[str, Any]:
    """Return the manifest of the archive at *source*; empty if it cannot be read."""
    try:
        return msgspec.json.decode(_manifest(Path(source)), type=dict[str, Any])
    except (OSError, ValueError, KeyError, BadZipFile, msgspec.MsgspecError):
        return {}


def _manifest(path: Path) -> bytes:
    if path.is_dir():
        return (path / MANIFEST).read_bytes()[:MAX_MANIFEST]
    with ZipFile(path) as archive, archive.open(MANIFEST) as file:
        return file.read(MAX_MANIFEST)


def _identity(manifest: Mapping[str, Any]) -> ArchiveIdentity:
    model = manifest.get("model")
    if isinstance(model, dict):
        return ArchiveIdentity(
            str(model.get("modelName") or ""), str(model.get("modelVersion") or "1.0")
        )
    if "format" in manifest:
        return ArchiveIdentity(
            str(manifest.get("name") or ""), str(manifest.get("version") or "1.0")
        )
    return ArchiveIdentity("", "")
