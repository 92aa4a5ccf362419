# SPDX-License-Identifier: Apache-2.0
"""``file:///path``: a file of this machine, or of a disk that it mounts."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["fetch"]

CHUNK_BYTES = 1 << 20


def fetch(url: str, start: int) -> Iterator[bytes]:
    """Yield the bytes of the file from *start* on."""
    with Path(unquote(urlsplit(url).path)).open("rb") as file:
        file.seek(start)
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
