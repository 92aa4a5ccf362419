# SPDX-License-Identifier: Apache-2.0
"""Remembers which files were verified, so that each is read only once.

One small file for each archive file, named by device and inode, so they do not pile up; and
one for each unpacked content, named by its digest.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = [
    "find_verified",
    "holds_content",
    "is_intact",
    "is_verified",
    "remember_content",
    "remember_intact",
    "remember_title",
    "remember_verified",
    "state_of",
    "title_of",
]


def is_verified(folder: Path, identity: str, digest: str) -> bool:
    """Say whether the archive file of this *identity* was found to hold *digest*."""
    return _says(_stamp(folder, identity), f"{identity} {digest}\n")


def remember_verified(folder: Path, identity: str, digest: str) -> None:
    """Record that the archive file of this *identity* holds *digest*.

    A stamp that cannot be written costs time at the next start and nothing else.
    """
    _say(_stamp(folder, identity), f"{identity} {digest}\n")


def state_of(directory: Path, names: Iterable[str]) -> str:
    """Return a string that changes whenever the files *names* in *directory* may have changed.

    :raises OSError: one of them is not there.
    """
    found = hashlib.sha256()
    for name in sorted(names):
        s = (directory / name).lstat()
        facts = name, s.st_dev, s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns
        found.update(repr(facts).encode())
    return found.hexdigest()


def is_intact(folder: Path, digest: str, state: str) -> bool:
    """Say whether the unpacked content *digest* was found right in this *state*."""
    return _says(folder / digest, f"{state}\n")


def remember_intact(folder: Path, digest: str, state: str) -> None:
    """Record that the unpacked content *digest* is right in this *state*."""
    _say(folder / digest, f"{state}\n")


def _says(stamp: Path, text: str) -> bool:
    try:
        return stamp.read_text() == text
    except (OSError, UnicodeDecodeError):
        return False


def _say(stamp: Path, text: str) -> None:
    draft = stamp.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        try:
            draft.write_text(text)
            draft.replace(stamp)
        finally:
            draft.unlink(missing_ok=True)


def _stamp(folder: Path, identity: str) -> Path:
    device, inode, *_ = identity.split()
    return folder / f"{device}-{inode}"


def find_verified(folder: Path, identity: str) -> str | None:
    """Return the digest that the archive file of this *identity* was found to hold, if it was."""
    try:
        said, _, digest = _stamp(folder, identity).read_text().strip().rpartition(" ")
    except (OSError, UnicodeDecodeError):
        return None
    return digest if said == identity else None


def remember_content(folder: Path, directory: Path, names: Sequence[str]) -> None:
    """Record the state of unpacked content that has no manifest of ours: the files *names*."""
    table = {"names": list(names), "state": state_of(directory, names)}
    _say(folder / directory.name, json.dumps(table))


def remember_title(folder: Path, digest: str, title: str) -> None:
    """Record what people call unpacked content that has no manifest of ours: ``name/version``."""
    table = _content(folder, digest)
    if table and table.get("title") != title:
        _say(folder / digest, json.dumps({**table, "title": title}))


def title_of(folder: Path, digest: str) -> str:
    """Return what was recorded as the title of unpacked content, or ""."""
    return str(_content(folder, digest).get("title", ""))


def _content(folder: Path, digest: str) -> dict[str, Any]:
    """Return what was recorded of unpacked content that has no manifest of ours."""
    try:
        table = json.loads((folder / digest).read_bytes())
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}


def holds_content(folder: Path, digest: str, directory: Path) -> bool:
    """Say whether *directory* is as ``remember_content`` has seen it. New files do not count."""
    table = _content(folder, digest)
    try:
        is_whole = bool(state_of(directory, table["names"]) == table["state"])
        os.utime(folder / digest)  # for remove_unused
    except (OSError, TypeError, KeyError):
        return False
    return is_whole
