# SPDX-License-Identifier: Apache-2.0
"""Detects changes of a model directory without reading its files. Runs in: children."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from servekit_archiver.directory.files import is_ignored, read_patterns

__all__ = ["resolved", "stamp"]

#: files that editors create beside a file while it is open or saved
EDITORS: Final = ("*~", ".*.sw?", "4913", ".#*", "#*#", "*.tmp")


def stamp(path: Path) -> str:
    """Return a digest of the name, size and time of a file, or of all files of a directory.

    It ignores files that an archive of the directory would leave out, and files that Python and
    editors write. It changes when a link points to another place.
    """
    path = resolved(path)
    known = hashlib.sha256(os.fsencode(path))
    for file in _files(path) if path.is_dir() else [path]:
        try:
            status = file.lstat()
        except OSError:
            continue  # it has just been removed
        facts = status.st_size, status.st_mtime_ns, status.st_ino
        known.update(b"%b\0%d\0%d\0%d\0" % (os.fsencode(file), *facts))
    return known.hexdigest()


def resolved(path: Path) -> Path:
    """Return *path* without links, unless it cannot be written without them.

    A link through ``/proc/PID/root`` leads into the file system of another container, as KServe
    makes one for models in images; without that link the path would name a place in ours.
    """
    direct = path.resolve()
    try:
        is_same = direct.samefile(path)
    except OSError:
        is_same = False
    return direct if is_same else path.absolute()


def _files(directory: Path) -> Iterator[Path]:
    patterns = (*read_patterns(directory), *EDITORS)
    for place, folders, names in os.walk(directory):
        above = Path(place).relative_to(directory)
        folders[:] = sorted(
            name for name in folders if not is_ignored((above / name).as_posix(), True, patterns)
        )
        for name in sorted(names):
            if not is_ignored((above / name).as_posix(), False, patterns):
                yield Path(place) / name
