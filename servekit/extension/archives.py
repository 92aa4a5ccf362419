# SPDX-License-Identifier: Apache-2.0
"""Arguments and results of the hooks for archives."""

from pathlib import Path
from typing import Any

from msgspec import Struct

__all__ = ["ACCEPT_GROUP", "ArchiveInfo", "Kept", "Policy", "Refused"]

#: entry points of plugins that implement ``accept_archive``: prepare children look for them
ACCEPT_GROUP = "servekit.accept_archive"


class ArchiveInfo(Struct, frozen=True, kw_only=True):
    """An archive or model directory that is about to be served; nothing of it has run yet."""

    name: str  #: the name to serve it under
    version: str
    source: str  #: the path or URL that the operator named, without user, query and fragment
    path: Path  #: the archive file, or the model directory
    directory: (
        Path  #: its files, unpacked and compared with the SHA-256s of the manifest; read-only
    )
    manifest: dict[str, Any]  #: the ``MANIFEST.json``
    digest: str  #: of an archive the SHA-256 of its manifest, and so of every file; else ""


class Policy(Struct, frozen=True, kw_only=True):
    """The rules that every archive must keep, and the trusted keys."""

    rules: tuple[str, ...] = ()  #: names, such as ``signed``
    trusted_keys: tuple[str, ...] = ()  #: files of public keys, or directories of such files


class Kept(Struct, frozen=True):
    """The archive keeps these rules of the policy."""

    rules: tuple[str, ...]


class Refused(Struct, frozen=True):
    """The archive must not be served."""

    reason: str  #: one line, shown in the log and by ``servekit models``
    rule: str = ""  #: the rule of the policy that it breaks
    file: str = ""  #: the file that breaks it

    def __str__(self) -> str:
        """Return the whole line."""
        place = f"{self.file}: " if self.file else ""
        return f"{place}{self.reason}" + (f" (rule {self.rule})" if self.rule else "")
