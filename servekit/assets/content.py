# SPDX-License-Identifier: Apache-2.0
"""The SHA-256 of a file or folder that a service made.

That of a folder is the SHA-256 of the output of ``sha256sum`` for its files, sorted by their names
in the folder. Names that begin with a dot are left out: libraries keep notes there.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from servekit_archiver.names import name_problem

from servekit.counting import counted
from servekit.errors import AssetError

__all__ = ["Content", "read_content", "seal"]

READ_ONLY = 0o444
ENTERED = 0o755


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file or folder."""

    sha256: str
    size: int  #: bytes of all files
    files: int = 0  #: in a folder; 0 if it is a file

    def __str__(self) -> str:
        return f"{self.sha256} ({counted(self.files, 'file')})" if self.files else self.sha256


def read_content(path: Path) -> Content:
    """Read the whole file or folder at *path*, and flush it to disk.

    :raises AssetError: it is missing, has no files, or has links or special files.
    """
    if path.is_symlink() or not path.exists():
        what = "a link" if path.is_symlink() else "not there"
        raise AssetError(
            f"store_assets: {path.name} is {what}; it writes directory / {path.name!r}"
        )
    if path.is_file():
        return Content(_file_digest(path), path.stat().st_size)
    names = sorted(_names(path, ""))
    if not names:
        raise AssetError(f"store_assets: {path.name} is a folder without files")
    lines = (f"{_file_digest(path / name)}  {name}\n" for name in names)
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    return Content(digest, sum((path / name).stat().st_size for name in names), len(names))


def _names(folder: Path, above: str) -> Iterator[str]:
    with os.scandir(folder / above) as entries:
        for entry in entries:
            name = f"{above}{entry.name}"
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _names(folder, f"{name}/")
                continue
            problem = name_problem(name)
            if not entry.is_file(follow_symlinks=False):
                problem = "is a link" if entry.is_symlink() else "is not a regular file"
            if problem:
                raise AssetError(f"store_assets: {folder.name}: {name!r} {problem}")
            yield name


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        os.fsync(file.fileno())
    return digest.hexdigest()


def seal(path: Path) -> None:
    """Make *path* readable by all and writable by none, and remove the names with a dot."""
    if path.is_file():
        path.chmod(READ_ONLY)
        return
    for above, folders, files in os.walk(path, topdown=True):
        Path(above).chmod(ENTERED)
        for name in files:
            file = Path(above) / name
            file.unlink() if name.startswith(".") else file.chmod(READ_ONLY)
        for name in [name for name in folders if name.startswith(".")]:
            _remove(Path(above) / name)
            folders.remove(name)


def _remove(entry: Path) -> None:
    import shutil

    entry.unlink() if entry.is_symlink() else shutil.rmtree(entry)
