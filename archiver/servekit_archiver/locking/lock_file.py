# SPDX-License-Identifier: Apache-2.0
"""``requirements.lock`` and ``requirements.wheels``, beside the ``requirements.txt`` of a model.

The lock is a requirements file for pip. Its first line says for which Python and for which
requirements it was made, so that a build can tell whether it still holds.
"""

import hashlib
import re
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.manifest.lock import LOCK_VERSION, Lock

__all__ = [
    "SOURCES",
    "LockHeader",
    "digest_of",
    "find_lock",
    "lock_path",
    "read_header",
    "wheels_path",
]

HEADER: Final = re.compile(r"# servekit lock (\d+): Python (\S+), requirements SHA-256 (\S+)\n")
#: the options of a requirements file that say where packages are
SOURCES: Final = re.compile(
    r"^(?:--no-index|(?:-i|--index-url|--extra-index-url|-f|--find-links)[ =].*)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class LockHeader:
    """The first line of a lock."""

    python: str  #: such as 3.11
    sha256: str  #: of the requirements
    version: int = LOCK_VERSION

    def __str__(self) -> str:
        facts = f"Python {self.python}, requirements SHA-256 {self.sha256}"
        return f"# servekit lock {self.version}: {facts}\n"


def lock_path(requirements: Path) -> Path:
    """Return where the lock of *requirements* is, or would be."""
    return requirements.with_suffix(".lock")


def wheels_path(requirements: Path) -> Path:
    """Return the folder for the wheels of *requirements*."""
    return requirements.with_suffix(".wheels")


def read_header(path: Path) -> LockHeader | None:
    """Return the header of the lock at *path*, or ``None`` if the archiver did not write it.

    :raises ArchiveError: a newer archiver wrote it.
    """
    if not path.is_file():
        return None
    with refuse_os_errors(path), path.open(encoding="utf-8", errors="replace") as file:
        found = HEADER.fullmatch(file.readline(256))
    if found is None:
        return None
    version, python, sha256 = found.groups()
    if int(version) > LOCK_VERSION:
        raise ArchiveError(f"{path}: is version {version}, newer than {LOCK_VERSION}; upgrade")
    return LockHeader(python, sha256)


def digest_of(requirements: Path) -> str:
    """Return what a header says about *requirements*."""
    with refuse_os_errors(requirements):
        return hashlib.sha256(requirements.read_bytes()).hexdigest()


def find_lock(
    directory: Path, requirements: str, names: Container[str] | None = None
) -> Lock | None:
    """Return the lock of *requirements*, a file of the model directory, if it has one.

    :param names: the files that are packed, if not all are.
    :raises ArchiveError: the requirements have changed since it was made.
    """
    path = lock_path(directory / requirements)
    name = path.relative_to(directory).as_posix()
    if name == requirements or (names is not None and name not in names):
        return None
    header = read_header(path)
    if header is None:
        return None
    if header.sha256 != digest_of(directory / requirements):
        raise ArchiveError(f"{path}: {requirements} has changed since; renew it with --lock")
    wheels = wheels_path(directory / requirements)
    packed = [wheel.relative_to(directory).as_posix() for wheel in wheels.glob("*.whl")]
    has_wheels = any(names is None or wheel in names for wheel in packed)
    folder = wheels.relative_to(directory).as_posix() if has_wheels else None
    return Lock(file=name, python=header.python, wheels=folder)
