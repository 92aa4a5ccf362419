# SPDX-License-Identifier: Apache-2.0
"""Untrusted pictures as Pillow images, and Pillow images as files."""

import io
import warnings
from collections.abc import Sequence
from typing import Any, Final

try:
    from PIL import Image, ImageOps, features
except ImportError as error:
    raise ImportError("an Image needs Pillow, pip install pillow") from error

from servekit.types import MediaRefused

__all__ = ["FORMATS", "MAX_PIXELS", "PNG", "WRITTEN", "read_image", "write_image"]

MAX_PIXELS: Final = 1 << 26  #: 192 MiB as RGB; a few kilobytes of PNG can claim far more
#: Pillow's names; its other decoders are seldom needed, and some of them run programs
FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
PNG: Final = "image/png"
#: media types that are written, with Pillow's names; WebP where Pillow has been built with it
WRITTEN: Final = {
    PNG: "PNG",
    "image/jpeg": "JPEG",
    **({"image/webp": "WEBP"} if features.check("webp") else {}),
}
QUALITY: Final = 90  #: for JPEG and WebP
LONGEST: Final = {"JPEG": 65_500, "WEBP": 16_383}  #: pixels of a side
#: modes that a format holds; an image of another mode is converted
MODES: Final = {
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"),
    "JPEG": ("L", "RGB"),
    "WEBP": ("RGB", "RGBA"),
}
SIXTEEN_BITS: Final = ("I", "I;16", "I;16B", "I;16L", "I;16N")  #: grey, 0 to 65535


# ------------------------------------------------------------ reading


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


# ------------------------------------------------------------ writing


def write_image(image: Image.Image, media_type: str, quality: int | None = None) -> bytes:
    """Return *image* as a file of *media_type*, one of ``WRITTEN``.

    Modes that the format cannot hold are converted: greys of 16 bits to 8, other colours to RGB,
    and what is transparent is white in a JPEG.

    :param quality: of JPEG and WebP, 1 to 100.
    :raises ValueError: the image has no pixels, or more in a row than the format can hold.
    """
    kind = WRITTEN[media_type]
    longest = max(image.size)
    if not min(image.size) or longest > LONGEST.get(kind, longest):
        size = f"{image.width}x{image.height} pixels"
        raise ValueError(f"an image of {size} cannot be written as {media_type}")
    how: dict[str, Any] = {"quality": QUALITY if quality is None else quality}
    if kind == "PNG":
        how = {"compress_level": 1}  # higher levels take several times as long
    written, file = _converted(image, kind), io.BytesIO()
    if written is image:  # a profile is that of one mode
        how["icc_profile"] = image.info.get("icc_profile")
    written.save(file, kind, **({"icc_profile": None} | how))
    return file.getvalue()


def _converted(image: Image.Image, kind: str) -> Image.Image:
    """Return *image* in a mode that files of *kind* hold."""
    if image.mode in SIXTEEN_BITS:
        image = image.convert("I")
        if kind == "PNG":
            return image.convert("I;16")
        image = image.point(lambda grey: grey * (1 / 256))
    if image.mode in ("I", "F"):
        image = image.convert("L")
    if image.mode in MODES[kind]:
        return image
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    if kind != "JPEG":
        return image
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
