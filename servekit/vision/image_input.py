# SPDX-License-Identifier: Apache-2.0
"""Makes the input of a model of pictures, by options and by the shape that the model declares."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from servekit.errors import BootError
from servekit.types import Image
from servekit.vision.options import Color, ImageOptions, Layout
from servekit.vision.pictures import (
    MAX_PIXELS,
    center_crop,
    center_of_resized,
    covering,
    decode_image,
    in_color,
    normalize,
    resize_exact,
    to_array,
)

from PIL.Image import fromarray  # isort: skip - ``pictures`` says that Pillow is missing

__all__ = ["ImageInput"]

CHANNELS: Final = {"rgb": 3, "bgr": 3, "gray": 1}
DTYPES: Final = ("float32", "float16", "float64", "uint8")
PLACE: Final = "[options.image]"


class Geometry(NamedTuple):
    """The size, layout and color of an input."""

    size: tuple[int, int]  #: height and width
    layout: Layout
    color: Color


class ImageInput:
    """Makes arrays of pictures. Immutable; may be used by several threads."""

    def __init__(
        self, options: ImageOptions, shape: Sequence[int] = (3, -1, -1), dtype: str = "float32"
    ) -> None:
        """Decide how pictures become the input.

        :param shape: of one picture, without the batch axis; -1 is any size.
        :param dtype: of the input: a float, or uint8.
        :raises BootError: something is missing, or contradicts the shape; names the key.
        """
        if dtype not in DTYPES:
            raise BootError(f"{PLACE}: the input has the type {dtype}, not {' or '.join(DTYPES)}")
        self._options, self.dtype = options, np.dtype(dtype)
        self.size, self.layout, self.color = _geometry(options, shape)
        channels, sides = CHANNELS[self.color], self.size
        self.shape = (channels, *sides) if self.layout == "nchw" else (*sides, channels)
        _check_numbers(options, channels, is_bytes=dtype == "uint8")

    def batch(self, images: Sequence[Image | bytes]) -> np.ndarray[Any, Any]:
        """Return an array ``[n, *shape]`` of pictures.

        :raises InputError: bytes are not a picture. Pillow images are never refused.
        """
        rows = np.empty((len(images), *self.shape), self.dtype)
        for row, image in zip(rows, images, strict=True):
            row[...] = self._array(decode_image(image) if isinstance(image, bytes) else image)
        return rows

    def samples(self) -> np.ndarray[Any, Any]:
        """Return a batch of two: a black picture, and noise that is always the same."""
        pixels = np.random.default_rng(0).integers(0, 256, (2, *self.size, 3), np.uint8)
        pixels[0] = 0
        return self.batch([fromarray(each) for each in pixels])

    def _array(self, image: Image) -> np.ndarray[Any, Any]:
        options = self._options
        pixels = to_array(self._fitted(in_color(image, self.color)), self.color, self.layout)
        if self.dtype == np.uint8:
            return pixels
        return normalize(pixels, options.scale or (0, 1), options.mean, options.std, self.layout)

    def _fitted(self, image: Image) -> Image:
        resize, how = self._options.resize, self._options.interpolation
        if resize == "exact":
            return resize_exact(image, self.size, how)
        height, width = covering(image, self.size if resize == "cover" else (resize, resize))
        if height * width > MAX_PIXELS:  # it is long and narrow
            return center_of_resized(image, (height, width), self.size, how)
        return center_crop(resize_exact(image, (height, width), how), self.size)


def _geometry(options: ImageOptions, shape: Sequence[int]) -> Geometry:
    if len(shape) != 3:
        raise BootError(f"{PLACE}: the input has the shape {list(shape)}, which no picture has")
    layout = options.layout or _layout_of(shape)
    channels, *sides = shape if layout == "nchw" else (shape[2], *shape[:2])
    color = options.color or ("gray" if channels == 1 else "rgb")
    if channels not in (CHANNELS[color], -1):
        key, value = ("color", color) if options.color else ("layout", layout)
        raise BootError(f"{PLACE} {key}: {value} does not fit the input {list(shape)}")
    size = _size_of(options, (sides[0], sides[1]))
    if isinstance(options.resize, int) and options.resize < max(size):
        raise BootError(f"{PLACE} resize: {options.resize} is below the size {list(size)}")
    return Geometry(size, layout, color)


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
