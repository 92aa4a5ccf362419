# SPDX-License-Identifier: Apache-2.0
"""Downloads an archive, and compares it with a digest where one is given."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from servekit.errors import StartupError
from servekit_fsspec.opening import CHUNK_BYTES, open_file

__all__ = ["download"]
DIGEST = re.compile(r"sha256=([0-9a-f]{64})")


def download(url: str, scratch: Path, progress: Callable[[int, int], None]) -> Path:
    """Return the archive at *url*, downloaded into *scratch*.

    :raises StartupError: its SHA-256 is not that of the fragment, the fragment says something
        else, or the package for its scheme is not installed.
    :raises OSError: the store does not answer, or has no such file.
    """
    location, _, fragment = url.partition("#")
    wanted = DIGEST.fullmatch(fragment)
    if fragment and not wanted:
        raise StartupError("the fragment of the URL must be #sha256= and 64 hexadecimal digits")
    path, hasher, done = scratch / "archive.mar", hashlib.sha256(), 0
    with open_file(location) as file, path.open("wb") as copy:
        total = getattr(file, "size", None) or 0
        while chunk := file.read(CHUNK_BYTES):
            hasher.update(chunk)
            done += copy.write(chunk)
            progress(done, total)
    if wanted and hasher.hexdigest() != wanted[1]:
        raise StartupError(f"its SHA-256 is {hasher.hexdigest()}, not {wanted[1]} as in the URL")
    return path
