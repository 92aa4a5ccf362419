# SPDX-License-Identifier: Apache-2.0
"""Tells one content of a model directory from another without reading it. Runs in: children."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from servekit_archiver.directory.files import is_ignored, read_patterns

__all__ = ["stamp"]

#: what editors leave beside a file while it is open or being written
EDITORS: Final = ("*~", ".*.sw?", "4913", ".#*", "#*#", "*.tmp")


def stamp(path: Path) -> str:
    """Return what changes with a file, or with any file of a directory: names, sizes, times.

    What an archive of the directory would leave out does not count, nor what Python and
    editors write there while it is served. A link that leads elsewhere is a change.
    """
    path = path.resolve()
    known = hashlib.sha256(os.fsencode(path))
    for file in _files(path) if path.is_dir() else [path]:
        try:
            status = file.lstat()
        except OSError:
            continue  # it goes while we look
        facts = status.st_size, status.st_mtime_ns, status.st_ino
        known.update(b"%b\0%d\0%d\0%d\0" % (os.fsencode(file), *facts))
    return known.hexdigest()


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
