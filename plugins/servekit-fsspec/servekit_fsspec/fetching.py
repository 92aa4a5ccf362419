# SPDX-License-Identifier: Apache-2.0
"""Reads a file of any file system that fsspec knows, from any place in it."""

from collections.abc import Iterator

import fsspec

from servekit.errors import StartupError

__all__ = ["fetch"]

CHUNK_BYTES = 8 << 20  #: one request to a store each


def fetch(url: str, start: int) -> Iterator[bytes]:
    """Yield the bytes of *url* from *start* on.

    :raises StartupError: the package for its scheme is not installed.
    """
    try:
        opened = fsspec.open(url, "rb", block_size=CHUNK_BYTES)
    except (ImportError, ValueError) as error:  # fsspec says which package it lacks
        raise StartupError(f"{url}: {error}") from error
    with opened as file:
        file.seek(start)
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
