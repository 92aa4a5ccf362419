# SPDX-License-Identifier: Apache-2.0
"""Types for the annotations of ``predict``: arrays, pictures, sound, files.

The worker makes such inputs, or refuses them and names the field::

    class Photo(Struct):
        image: Image  # arrives as a Pillow image
        caption: Text
        mask: Annotated[np.ndarray, Array("uint8", (64, 64))] | None = None

It writes such outputs, as ``Format`` declares and as the client accepts them::

    def predict(self, batch: list[Photo]) -> list[Annotated[Image, Format("image/jpeg")]]: ...

Light to import: Pillow and NumPy are imported when the first one is made.
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from servekit.types.arrays import Array
from servekit.types.formats import Format
from servekit.types.values import register_value_type

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image
else:

    class _IsPillows(type):
        def __instancecheck__(cls, value: Any) -> bool:
            pillow = sys.modules.get("PIL.Image")
            return pillow is not None and isinstance(value, pillow.Image)

    class Image(metaclass=_IsPillows):
        """A picture: a ``PIL.Image.Image``. As an input it is upright, and all of it is read."""


__all__ = [
    "Array",
    "Audio",
    "File",
    "Format",
    "Image",
    "MediaRefused",
    "Text",
    "TextPart",
    "register_value_type",
]


class File:
    """A file, as the client sent it, or as it is sent to the client."""

    __slots__ = ("content", "content_type", "name")

    def __init__(self, name: str, content_type: str, content: bytes) -> None:
        """Keep name, type and content."""
        self.name = name  #: or ""; a client chooses it, so never open it as a path
        self.content_type = content_type  #: or ""
        self.content = content

    def __repr__(self) -> str:
        """Show everything but the content."""
        return f"File({self.name!r}, {self.content_type!r}, {len(self.content)} bytes)"


class Audio:
    """Sound: samples and their rate."""

    __slots__ = ("sample_rate", "samples")

    def __init__(self, samples: "np.ndarray[Any, Any]", sample_rate: int) -> None:
        """Keep both."""
        #: float32 of [-1, 1], shape [frames, channels]; an output may also have any other float,
        #: int16, or the shape [frames]
        self.samples = samples
        self.sample_rate = sample_rate  #: frames per second

    def __repr__(self) -> str:
        """Show how much there is."""
        return f"Audio({list(self.samples.shape)}, {self.sample_rate} Hz)"


class MediaRefused(ValueError):
    """A file is malformed or too large; the message is for the client."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Marks a string whose part of a form is not decoded: ``5`` is the string "5", not a number."""


Text = Annotated[str, TextPart()]
