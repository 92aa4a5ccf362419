# SPDX-License-Identifier: Apache-2.0
"""Pillow's images between stages: pixels, mode, palette, and what a file said besides."""

from collections.abc import Sequence
from typing import Any, Final

from PIL import Image, ImageMode

__all__ = ["read", "write"]

#: types of the entries of ``info`` that are kept, and of the elements of tuples in it
KEPT: Final = frozenset({str, bytes, bool, int, float})


def write(image: Image.Image) -> list[Any]:
    """Return mode, size, pixels, palette and info of *image*, which is read from its file."""
    pixels = image.tobytes()
    palette = None
    if image.palette is not None:
        mode = image.palette.mode
        palette = [mode, bytes(image.getpalette(mode) or ())]
    info = {key: each for key, each in image.info.items() if _is_kept(each)}
    return [image.mode, list(image.size), pixels, palette, info]


def _is_kept(entry: Any) -> bool:
    return KEPT.issuperset(map(type, entry)) if type(entry) is tuple else type(entry) in KEPT


def read(written: Sequence[Any]) -> Image.Image:
    """Return the image again.

    :raises ValueError: the pixels are not those of its mode and size.
    """
    mode, size, pixels, palette, info = written
    if len(pixels) != _byte_count(mode, *size):
        raise ValueError(f"{len(pixels)} bytes are not an image of {mode} {size}")
    image = Image.frombytes(mode, tuple(size), pixels)
    if palette is not None:
        image.putpalette(palette[1], palette[0])
    image.info = info
    return image


def _byte_count(mode: str, width: int, height: int) -> int:
    if min(width, height) < 0:
        raise ValueError(f"an image of {width} by {height}")
    if mode == "1":
        return (width + 7) // 8 * height
    described = ImageMode.getmode(mode)
    return width * height * len(described.bands) * int(described.typestr[2:])
