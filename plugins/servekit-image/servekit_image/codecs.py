# SPDX-License-Identifier: Apache-2.0
"""Image bodies to ``uint8`` arrays ``[height, width, 3]`` and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from servekit.errors import BodyMalformed
from servekit.types import MediaRefused
from servekit.types.images import read_image, write_image

__all__ = ["ImageCodec", "jpeg", "png", "webp"]


class ImageCodec:
    """Reads and writes images of one media type."""

    def __init__(self, media_type: str) -> None:
        """Use only the decoder of *media_type*, which is one that Pillow writes here."""
        self._media_type = media_type

    def decode(self, body: bytes, _parameters: Mapping[str, str]) -> np.ndarray:
        """Return the pixels, turned upright as the camera noted; transparency is dropped.

        :raises BodyMalformed: the body is not such an image, or one of too many pixels.
        """
        try:
            image = read_image(body, [self._media_type.removeprefix("image/").upper()])
        except MediaRefused as error:
            raise BodyMalformed(f"body: {error}") from error
        return np.array(_eight_bits(image).convert("RGB"))

    def encode(self, output: Any) -> bytes:
        """Return *output*, a ``uint8`` array ``[h, w]``, ``[h, w, 3]`` or ``[h, w, 4]``.

        :raises TypeError: it is anything else; the next media type of ``Accept`` is tried then.
        """
        array = _as_array(output, self._media_type)
        is_image = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
        if array.dtype != np.uint8 or not is_image or not array.size:
            raise TypeError(
                f"{self._media_type} needs uint8 [h, w], [h, w, 3] or [h, w, 4], not {array.dtype} "
                f"{list(array.shape)}"
            )
        return write_image(Image.fromarray(array), self._media_type)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit grey down: Pillow's own conversion would clip it to white."""
    if not image.mode.startswith("I"):
        return image
    return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))


def _as_array(output: Any, media_type: str) -> np.ndarray:
    try:
        return np.asarray(output)
    except ValueError as error:  # lists of unequal lengths, for one
        raise TypeError(f"{media_type} needs an array: {error}") from error


png = ImageCodec("image/png")
jpeg = ImageCodec("image/jpeg")
webp = ImageCodec("image/webp")
