# SPDX-License-Identifier: Apache-2.0
"""Locks the requirements of a model directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servekit_archiver.directory.model_directory import Recognise, default_name, describe_directory
from servekit_archiver.directory.model_toml import manifest_from_toml
from servekit_archiver.errors import ArchiveError
from servekit_archiver.locking.lock_file import (
    digest_of,
    find_lock,
    lock_path,
    read_header,
    wheels_path,
)
from servekit_archiver.locking.resolving import Tell, download_wheels, write_lock
from servekit_archiver.locking.tools import RUNNING
from servekit_archiver.manifest import Lock
from servekit_archiver.manifest.lock import PYTHON_VERSION

__all__ = ["lock_directory"]


def lock_directory(
    directory: str | Path,
    *,
    python: str = "",
    wheels: bool = False,
    keep: bool = False,
    tell: Tell = lambda _: None,
    recognise: Recognise | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Lock:
    """Write ``requirements.lock`` into a model directory; ``build_archive`` then packs it.

    :param python: the version to lock for, such as "3.12"; default: that of an older lock, or
        the running one.
    :param wheels: download the wheels for this machine, too, into ``requirements.wheels``. If
        there are some already, the folder is brought up to date in any case.
    :param keep: keep a lock that still holds.
    :param tell: gets what is being done.
    :raises ArchiveError: the model names no requirements, uv is missing, or it finds no versions.
    """
    directory = Path(directory)
    requirements = _requirements(directory, recognise, overrides)
    older = read_header(lock_path(requirements))
    python = python or (older.python if older else RUNNING)
    PYTHON_VERSION.check(python, "python", problems := list[str]())
    if problems:
        raise ArchiveError(problems[0])
    fits = older and (older.python, older.sha256) == (python, digest_of(requirements))
    if not (keep and fits):
        write_lock(requirements, python, tell)
    if wheels or any(wheels_path(requirements).glob("*.whl")):  # those of an older lock
        download_wheels(requirements, python, tell)
    lock = find_lock(directory, requirements.relative_to(directory).as_posix())
    assert lock is not None, "it was just written"
    return lock


def _requirements(
    directory: Path, recognise: Recognise | None, overrides: Mapping[str, Any] | None
) -> Path:
    table = describe_directory(directory, recognise, overrides)
    exists = lambda name: (directory / name).is_file()  # noqa: E731 - used once
    manifest = manifest_from_toml(table, name=default_name(directory), exists=exists)
    if manifest.requirements is None:
        raise ArchiveError(f"{directory}: model.toml names no requirements that could be locked")
    return directory / manifest.requirements
