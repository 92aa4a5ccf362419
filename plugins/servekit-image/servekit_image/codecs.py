# SPDX-License-Identifier: Apache-2.0
"""Image bodies to ``uint8`` arrays ``[height, width, 3]`` and back."""

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from PIL import Image

from servekit.errors import BodyMalformed
from servekit.types import MediaRefused
from servekit.types.images import read_image

__all__ = ["ImageCodec", "jpeg", "png", "webp"]


class ImageCodec:
    """Reads one image format, and writes it if *encode* is given."""

    def __init__(self, kind: str, encode: Callable[[Any], bytes] | None = None) -> None:
        """Store.

        :param kind: Pillow's name of the format; no other decoder sees the body.
        """
        self._kind = kind
        self.encode = encode

    def decode(self, body: bytes, _parameters: Mapping[str, str]) -> np.ndarray:
        """Return the pixels, turned upright as the camera noted; transparency is dropped.

        :raises BodyMalformed: the body is not such an image, or one of too many pixels.
        """
        try:
            image = read_image(body, [self._kind])
        except MediaRefused as error:
            raise BodyMalformed(f"body: {error}") from error
        return np.array(_eight_bits(image).convert("RGB"))


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit grey down: Pillow's own conversion would clip it to white."""
    if not image.mode.startswith("I"):
        return image
    return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))


def _encode_png(output: Any) -> bytes:
    """Return *output*, a ``uint8`` array ``[h, w]``, ``[h, w, 3]`` or ``[h, w, 4]``, as PNG.

    :raises TypeError: it is anything else; the next media type of ``Accept`` is tried then.
    """
    array = _as_array(output)
    is_image = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if array.dtype != np.uint8 or not is_image or not array.size:
        raise TypeError(
            f"image/png needs uint8 [h, w], [h, w, 3] or [h, w, 4], not {array.dtype} "
            f"{list(array.shape)}"
        )
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _as_array(output: Any) -> np.ndarray:
    try:
        return np.asarray(output)
    except ValueError as error:  # lists of unequal lengths, for one
        raise TypeError(f"image/png needs an array: {error}") from error


png = ImageCodec("PNG", _encode_png)
jpeg = ImageCodec("JPEG")
webp = ImageCodec("WEBP")
