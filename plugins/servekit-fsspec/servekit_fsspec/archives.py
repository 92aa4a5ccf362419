# SPDX-License-Identifier: Apache-2.0
"""Downloads an archive, and compares it with a digest where one is given."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import fsspec

from servekit.errors import StartupError

__all__ = ["download"]

CHUNK_BYTES = 8 << 20  #: one request to a store each
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
    try:
        opened = fsspec.open(location, "rb", block_size=CHUNK_BYTES)
    except (ImportError, ValueError) as error:  # fsspec says which package it lacks
        raise StartupError(str(error)) from error
    path, hasher, done = scratch / "archive.mar", hashlib.sha256(), 0
    with opened as file, path.open("wb") as copy:
        total = getattr(file, "size", None) or 0
        while chunk := file.read(CHUNK_BYTES):
            hasher.update(chunk)
            done += copy.write(chunk)
            progress(done, total)
    if wanted and hasher.hexdigest() != wanted[1]:
        raise StartupError(f"its SHA-256 is {hasher.hexdigest()}, not {wanted[1]} as in the URL")
    return path
