# SPDX-License-Identifier: Apache-2.0
"""Pillow images: decoded, resized, cut, drawn on, and made into arrays."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from servekit.errors import InputError
from servekit.types import MediaRefused
from servekit.types.images import MAX_PIXELS, read_image  # says that Pillow is missing, if it is
from servekit.vision.options import Color, Interpolation, Layout

from PIL import Image, ImageDraw  # isort: skip - after the import that says what is missing

__all__ = [
    "MAX_PIXELS",
    "center_crop",
    "center_of_resized",
    "covering",
    "decode_image",
    "draw_boxes",
    "in_color",
    "normalize",
    "resize_exact",
    "resize_shorter",
    "to_array",
]

Pixels = np.ndarray[Any, Any]
Box = Sequence[float]  #: left, top, right, bottom in pixels

FILTERS: Final = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def decode_image(content: bytes) -> Image.Image:
    """Return a PNG, JPEG, WebP, GIF or BMP file as a picture, upright and fully read.

    :raises InputError: it is not such a file, or has too many pixels.
    """
    try:
        return read_image(content)
    except MediaRefused as error:
        raise InputError(str(error)) from None


# ------------------------------------------------------------ sizes; each is (height, width)


def resize_shorter(
    image: Image.Image, size: int, interpolation: Interpolation = "bilinear"
) -> Image.Image:
    """Return *image* with *size* pixels on its shorter side, like ``Resize(size)`` of torchvision.

    :raises InputError: it is so narrow that the result would have too many pixels.
    """
    height, width = covering(image, (size, size))
    if height * width > MAX_PIXELS:
        raise InputError(
            f"a picture of {image.width} x {image.height} pixels is too narrow to resize to {size}"
        )
    return resize_exact(image, (height, width), interpolation)


def resize_exact(
    image: Image.Image, size: tuple[int, int], interpolation: Interpolation = "bilinear"
) -> Image.Image:
    """Return *image* stretched to *size*."""
    return image.resize((size[1], size[0]), FILTERS[interpolation])


def center_crop(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return the center of *image*; black is added where it is smaller than *size*."""
    top, left = _start(image.height, size[0]), _start(image.width, size[1])
    return image.crop((left, top, left + size[1], top + size[0]))


def covering(image: Image.Image, wanted: tuple[int, int]) -> tuple[int, int]:
    """Return the smallest size with the proportions of *image* that covers the *wanted* one."""
    height, width = wanted
    if image.width * height <= image.height * width:
        return max(height, int(width * image.height / image.width)), width
    return height, max(width, int(height * image.width / image.height))


def center_of_resized(
    image: Image.Image,
    resized: tuple[int, int],
    size: tuple[int, int],
    interpolation: Interpolation = "bilinear",
) -> Image.Image:
    """Return the center that *image* would have if it were *resized*, which is too large to do."""
    box = []
    for length, whole, wanted in zip(image.size, resized[::-1], size[::-1], strict=True):
        start = _start(whole, wanted)
        box.append((start * length / whole, min(length, (start + wanted) * length / whole)))
    (left, right), (top, bottom) = box
    sides = (left, top, right, bottom)
    return image.resize((size[1], size[0]), FILTERS[interpolation], box=sides)


def _start(length: int, wanted: int) -> int:
    """Return where the center begins, rounded as torchvision does."""
    return round((length - wanted) / 2) if length >= wanted else -((wanted - length) // 2)


# ------------------------------------------------------------ arrays


def to_array(image: Image.Image, color: Color = "rgb", layout: Layout = "nchw") -> Pixels:
    """Return the pixels as uint8, shape ``[channels, h, w]`` or ``[h, w, channels]``.

    Transparency is ignored, and 16 bits of gray become 8.

    :param layout: of the batch that the array becomes a row of.
    """
    pixels = np.asarray(in_color(image, color))
    if color == "gray":
        pixels = pixels[:, :, np.newaxis]
    elif color == "bgr":
        pixels = pixels[:, :, ::-1]
    return pixels.transpose(2, 0, 1) if layout == "nchw" else pixels


def in_color(image: Image.Image, color: Color) -> Image.Image:
    """Return *image* in Pillow's mode ``L`` or ``RGB``: itself if it has that mode."""
    mode = "L" if color == "gray" else "RGB"
    if image.mode == mode:
        return image
    if image.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255
        high = np.asarray(image, np.int32) >> 8
        image = Image.fromarray(high.clip(0, 255).astype(np.uint8))
    return image.convert(mode)


def normalize(
    pixels: Pixels,
    scale: tuple[float, float] = (0, 1),
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    layout: Layout = "nchw",
) -> Pixels:
    """Return *pixels* as float32: scaled, *mean* subtracted, divided by *std*.

    :param pixels: uint8, shape ``[..., channels, h, w]`` or ``[..., h, w, channels]``.
    :param scale: the numbers of black and of white.
    :param mean: one number, or one for each channel; empty subtracts nothing.
    :param std: one number, or one for each channel; empty divides by 1.
    """
    low, high = scale
    shift, divisor = np.asarray(mean or [0], float), np.asarray(std or [1], float)
    factor, offset = (high - low) / 255 / divisor, (low - shift) / divisor
    axes = (-1, 1, 1) if layout == "nchw" else (-1,)
    values: Pixels = pixels * factor.reshape(axes).astype(np.float32)
    values += offset.reshape(axes).astype(np.float32)
    return values


# ------------------------------------------------------------ drawing


def draw_boxes(
    image: Image.Image,
    boxes: Sequence[Box],
    labels: Sequence[str] = (),
    *,
    color: str = "red",
    width: int = 2,
) -> Image.Image:
    """Return a copy of *image* in RGB with the outlines of the boxes.

    :param boxes: left, top, right and bottom of each, in pixels.
    :param labels: text for each box; empty writes nothing.
    :param color: a name, or ``#rrggbb``.
    :param width: of the lines, in pixels.
    """
    drawn = in_color(image, "rgb").copy()
    pen = ImageDraw.Draw(drawn)
    for left, top, right, bottom in boxes:
        pen.rectangle((left, top, right, bottom), outline=color, width=width)
    for (left, top, *_), label in zip(boxes, labels, strict=False):
        pen.text((left + width + 1, top + width), label, fill=color)
    return drawn
