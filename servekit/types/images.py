# SPDX-License-Identifier: Apache-2.0
"""Untrusted pictures as Pillow images."""

import io
import warnings
from collections.abc import Sequence
from typing import Final

try:
    from PIL import Image, ImageOps
except ImportError as error:
    raise ImportError("an Image needs Pillow, pip install pillow") from error

from servekit.types import MediaRefused

__all__ = ["FORMATS", "MAX_PIXELS", "read_image"]

MAX_PIXELS: Final = 1 << 26  #: 192 MiB as RGB; a few kilobytes of PNG can claim far more
#: Pillow's names; its other decoders are seldom needed, and some of them run programs
FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP")


def read_image(content: bytes, formats: Sequence[str] = FORMATS) -> Image.Image:
    """Return the picture, fully read and turned upright.

    :param formats: the only decoders that are tried.
    :raises MediaRefused: it is not such a picture, or has more than ``MAX_PIXELS``.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _read(content, formats)
    except Image.DecompressionBombError:
        raise MediaRefused(f"over the limit of {MAX_PIXELS} pixels") from None
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises whatever its decoders ran into
        raise MediaRefused(f"not a readable {' or '.join(formats)} image") from error


def _read(content: bytes, formats: Sequence[str]) -> Image.Image:
    with Image.open(io.BytesIO(content), formats=tuple(formats)) as image:
        if image.width * image.height > MAX_PIXELS:
            raise Image.DecompressionBombError
        return ImageOps.exif_transpose(image)
