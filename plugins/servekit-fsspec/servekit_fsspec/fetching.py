# SPDX-License-Identifier: Apache-2.0
"""Reads a file of any file system that fsspec knows, from any place in it."""

from collections.abc import Iterator

from servekit.errors import StartupError
from servekit_fsspec.opening import CHUNK_BYTES, open_file

__all__ = ["fetch"]


def fetch(url: str, start: int) -> Iterator[bytes]:
    """Yield the bytes of *url* from *start* on.

    :raises StartupError: the package for its scheme is not installed.
    """
    try:
        opened = open_file(url)
    except StartupError as error:
        raise StartupError(f"{url}: {error}") from error
    with opened as file:
        file.seek(start)
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
