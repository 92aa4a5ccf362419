# SPDX-License-Identifier: Apache-2.0
"""Makes the input of a model of pictures, by options and by the shape that the model declares."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from servekit.types import Image
from servekit.vision.geometry import image_geometry
from servekit.vision.options import ImageOptions
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
        self._options = options
        self.geometry = image_geometry(options, shape, dtype)

    def batch(self, images: Sequence[Image | bytes]) -> np.ndarray[Any, Any]:
        """Return an array ``[n, *shape]`` of pictures.

        :raises InputError: bytes are not a picture. Pillow images are never refused.
        """
        rows = np.empty((len(images), *self.geometry.shape), self.geometry.dtype)
        for row, image in zip(rows, images, strict=True):
            row[...] = self._array(decode_image(image) if isinstance(image, bytes) else image)
        return rows

    def samples(self) -> np.ndarray[Any, Any]:
        """Return a batch of two: a black picture, and noise that is always the same."""
        pixels = np.random.default_rng(0).integers(0, 256, (2, *self.geometry.size, 3), np.uint8)
        pixels[0] = 0
        return self.batch([fromarray(each) for each in pixels])

    def _array(self, image: Image) -> np.ndarray[Any, Any]:
        options, (_, layout, color, dtype) = self._options, self.geometry
        pixels = to_array(self._fitted(in_color(image, color)), color, layout)
        if dtype == "uint8":
            return pixels
        return normalize(pixels, options.scale or (0, 1), options.mean, options.std, layout)

    def _fitted(self, image: Image) -> Image:
        resize, how, size = self._options.resize, self._options.interpolation, self.geometry.size
        if resize == "exact":
            return resize_exact(image, size, how)
        height, width = covering(image, size if resize == "cover" else (resize, resize))
        if height * width > MAX_PIXELS:  # it is long and narrow
            return center_of_resized(image, (height, width), size, how)
        return center_crop(resize_exact(image, (height, width), how), size)
