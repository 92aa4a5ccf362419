# SPDX-License-Identifier: Apache-2.0
"""A picture in, a picture out: drawn with a pencil, printed as a poster, or embossed."""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct
from PIL import Image as Pillow
from PIL import ImageFilter, ImageOps

from servekit import Service, endpoint
from servekit.types import Format, Image

STEPS = 4
#: JPEG for clients that take any picture, and within JSON; PNG and WebP by ``Accept``
Jpeg = Annotated[Image, Format("image/jpeg", quality=85)]


class Picture(Struct, forbid_unknown_fields=True):
    """What a client sends, as a form, JSON or msgpack."""

    image: Image
    style: Literal["pencil", "poster", "relief"] = "pencil"
    strength: Annotated[float, Meta(ge=0, le=1)] = 0.8


class Restyle(Service):
    """Stands for a diffusion model: takes what such a model takes, and needs only Pillow."""

    def predict(self, batch: list[Picture]) -> list[Jpeg]:
        """Return each picture in its style."""
        return [restyle(each.image, each.style, each.strength) for each in batch]

    @endpoint()
    def steps(self, picture: Picture) -> Iterator[Jpeg]:
        """Yield the picture as its style grows stronger."""
        for step in range(1, STEPS + 1):
            yield restyle(picture.image, picture.style, picture.strength * step / STEPS)


def restyle(image: Pillow.Image, style: str, strength: float) -> Pillow.Image:
    """Return *image* in its *style*; a strength of 0 changes nothing."""
    image = image.convert("RGB")
    return Pillow.blend(image, STYLES[style](image), strength)


def pencil(image: Pillow.Image) -> Pillow.Image:
    """Return the edges of the picture as dark lines on white."""
    edges = ImageOps.grayscale(image).filter(ImageFilter.FIND_EDGES)
    return ImageOps.autocontrast(ImageOps.invert(edges)).convert("RGB")


def poster(image: Pillow.Image) -> Pillow.Image:
    """Return the picture in few, strong colours."""
    return ImageOps.posterize(ImageOps.autocontrast(image), 2)


def relief(image: Pillow.Image) -> Pillow.Image:
    """Return the picture as if it were carved."""
    return image.filter(ImageFilter.EMBOSS)


STYLES = {"pencil": pencil, "poster": poster, "relief": relief}
