# SPDX-License-Identifier: Apache-2.0
"""The media type of a file, by its name."""

import mimetypes
from pathlib import PurePath
from typing import Final

__all__ = ["media_type_of"]

#: types that ``mimetypes`` does not know on every system
TYPES: Final = {
    ".json": "application/json",
    ".npy": "application/x-npy",
    ".msgpack": "application/msgpack",
}


def media_type_of(name: str) -> str:
    """Return the media type of the file *name*; ``application/octet-stream`` if unknown."""
    known = TYPES.get(PurePath(name).suffix.lower()) or mimetypes.guess_type(name)[0]
    return known or "application/octet-stream"
