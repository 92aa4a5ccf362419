# SPDX-License-Identifier: Apache-2.0
"""The file of the policy, and what it allows."""

import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from servekit.errors import PluginError
from servekit.extension import ArchiveInfo, Refused

__all__ = ["Rule", "judge", "read_policy"]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[allow]]`` of the file: all that it says must fit."""

    name: str = "*"
    source: str = "*"
    digest: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""  #: "" is any
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


class PolicyFile(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    allow: list[Rule] = []


def read_policy(path: Path) -> list[Rule]:
    """Return the rules of the file.

    :raises PluginError: it cannot be read, or is not a policy.
    """
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), PolicyFile).allow
    except OSError as error:
        raise PluginError(f"{path}: {error.strerror}") from error
    except (ValueError, msgspec.ValidationError) as error:
        raise PluginError(f"{path}: {error}") from error


def judge(rules: Sequence[Rule], archive: ArchiveInfo) -> Refused | None:
    """Return why *archive* may not be served, if it may not."""
    if any(rule.allows(archive) for rule in rules):
        return None
    what = f"digest {archive.digest}" if archive.digest else "a directory"
    return Refused(f"{archive.name} {archive.version} ({what}) is not in the policy")
