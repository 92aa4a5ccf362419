# SPDX-License-Identifier: Apache-2.0
"""The file of the rule ``allowed``: which archives a server may serve."""

import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from servekit.errors import PluginError
from servekit.extension import ArchiveInfo

__all__ = ["AllowRule", "is_allowed", "read_allow_list"]


class AllowRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[allow]]`` of the file: all that it says must fit."""

    name: str = "*"
    source: str = "*"
    digest: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""  #: "" is any
    directories: bool = False

    def allows(self, archive: ArchiveInfo) -> bool:
        """Return whether it fits *archive*."""
        if not archive.digest and not self.directories:
            return False
        return (
            fnmatchcase(archive.name, self.name)
            and fnmatchcase(archive.source, self.source)
            and self.digest in ("", archive.digest)
        )


class AllowList(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    allow: list[AllowRule] = []


def read_allow_list(path: Path) -> list[AllowRule]:
    """Return the rules of the file.

    :raises PluginError: it cannot be read, or is not an allow-list.
    """
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), AllowList).allow
    except OSError as error:
        raise PluginError(f"{path}: {error.strerror}") from error
    except (ValueError, msgspec.ValidationError) as error:
        raise PluginError(f"{path}: {error}") from error


def is_allowed(rules: Sequence[AllowRule], archive: ArchiveInfo) -> bool:
    """Return whether one of *rules* fits *archive*."""
    return any(rule.allows(archive) for rule in rules)
