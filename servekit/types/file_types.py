# SPDX-License-Identifier: Apache-2.0
"""What a file holds, by its name."""

import mimetypes
from pathlib import PurePath
from typing import Final

__all__ = ["media_type_of"]

#: what ``mimetypes`` does not know everywhere
TYPES: Final = {
    ".json": "application/json",
    ".npy": "application/x-npy",
    ".msgpack": "application/msgpack",
}


def media_type_of(name: str) -> str:
    """Return the media type of a file called *name*; bytes as they are if nothing tells it."""
    known = TYPES.get(PurePath(name).suffix.lower()) or mimetypes.guess_type(name)[0]
    return known or "application/octet-stream"
