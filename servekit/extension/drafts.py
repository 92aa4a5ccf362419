# SPDX-License-Identifier: Apache-2.0
"""Directories that a command fills: with all of its files, or with none."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servekit.errors import StartupError

__all__ = ["draft_directory"]

MODE = 0o755  #: a temporary directory is the user's alone


@contextmanager
def draft_directory(directory: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield an empty directory, whose files move into *directory* unless an exception is raised.

    :param force: overwrite files of the same name; other files stay.
    :raises StartupError: *directory* is a file, or has files; or a file cannot be written.
    """
    try:
        if directory.exists() and not directory.is_dir():
            raise StartupError(f"{directory}: is not a directory")
        if not force and directory.exists() and any(directory.iterdir()):
            raise StartupError(f"{directory}: is not an empty directory (--force writes into it)")
        directory.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{directory.name}."
        with tempfile.TemporaryDirectory(prefix=prefix, dir=directory.parent) as place:
            draft = Path(place) / "draft"
            draft.mkdir(mode=MODE)
            yield draft
            shutil.copytree(draft, directory, copy_function=shutil.move, dirs_exist_ok=True)
    except OSError as error:
        raise StartupError(f"{error.filename or directory}: {error.strerror}") from error
