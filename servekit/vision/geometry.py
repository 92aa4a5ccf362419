# SPDX-License-Identifier: Apache-2.0
"""The array that a picture becomes, by options and by the shape of the input of a model."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from servekit.errors import BootError
from servekit.vision.options import Color, ImageOptions, Layout

__all__ = ["ImageGeometry", "image_geometry"]

CHANNELS: Final = {"rgb": 3, "bgr": 3, "gray": 1}
DTYPES: Final = ("float32", "float16", "float64", "uint8")
PLACE: Final = "[options.image]"


class ImageGeometry(NamedTuple):
    """The array of one picture."""

    size: tuple[int, int]  #: height and width
    layout: Layout
    color: Color
    dtype: str

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the array, without the batch axis."""
        height, width = self.size
        channels = CHANNELS[self.color]
        return (channels, height, width) if self.layout == "nchw" else (height, width, channels)


def image_geometry(
    options: ImageOptions, shape: Sequence[int], dtype: str = "float32"
) -> ImageGeometry:
    """Return the array that *options* make of a picture, for an input of *shape* and *dtype*.

    :param shape: of one picture, without the batch axis; -1 is any size.
    :raises BootError: something is missing, or contradicts the input; names the key.
    """
    if dtype not in DTYPES:
        raise BootError(f"{PLACE}: the input has the type {dtype}, not {' or '.join(DTYPES)}")
    if len(shape) != 3:
        raise BootError(f"{PLACE}: the input shape {list(shape)} is not that of a picture")
    layout = options.layout or _layout_of(shape)
    channels, *sides = shape if layout == "nchw" else (shape[2], *shape[:2])
    color = options.color or ("gray" if channels == 1 else "rgb")
    if channels not in (CHANNELS[color], -1):
        key, value = ("color", color) if options.color else ("layout", layout)
        raise BootError(f"{PLACE} {key}: {value} does not fit the input {list(shape)}")
    size = _size_of(options, (sides[0], sides[1]))
    if isinstance(options.resize, int) and options.resize < max(size):
        raise BootError(f"{PLACE} resize: {options.resize} is below the size {list(size)}")
    _check_numbers(options, CHANNELS[color], is_bytes=dtype == "uint8")
    return ImageGeometry(size, layout, color, dtype)


def _layout_of(shape: Sequence[int]) -> Layout:
    is_first, is_last = (axis in CHANNELS.values() for axis in (shape[0], shape[2]))
    if is_first == is_last:
        which = "both the first and the last axis" if is_first else "neither axis"
        raise BootError(
            f'{PLACE} layout: say "nchw" or "nhwc"; {which} of the input {list(shape)} '
            "could be 1 or 3 channels"
        )
    return "nchw" if is_first else "nhwc"


def _size_of(options: ImageOptions, sides: tuple[int, int]) -> tuple[int, int]:
    size = options.size or sides
    if -1 in size:
        raise BootError(f"{PLACE} size: needed, since the model takes pictures of any size")
    if any(side not in (wanted, -1) for wanted, side in zip(size, sides, strict=True)):
        raise BootError(f"{PLACE} size: {list(size)} does not fit the input of {list(sides)}")
    return size


def _check_numbers(options: ImageOptions, channels: int, *, is_bytes: bool) -> None:
    if options.scale is not None and options.scale[0] == options.scale[1]:
        raise BootError(f"{PLACE} scale: black and white are both {options.scale[0]}")
    if is_bytes and options.scale not in (None, (0, 255)):
        raise BootError(f"{PLACE} scale: the input takes bytes, which are 0 to 255")
    for key, numbers in (("mean", options.mean), ("std", options.std)):
        if numbers and is_bytes:
            raise BootError(f"{PLACE} {key}: the input takes bytes, which are not normalized")
        if len(numbers) not in (0, 1, channels):
            raise BootError(f"{PLACE} {key}: {len(numbers)} numbers for {channels} channels")
    if 0 in options.std:
        raise BootError(f"{PLACE} std: contains 0")
