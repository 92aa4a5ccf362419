# SPDX-License-Identifier: Apache-2.0
"""``Format``: the media type in which a picture, a sound or a file is an output."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import msgspec

__all__ = ["FORMAT", "Format", "OutputFormat"]

FORMAT: Final = "servekit.format"  #: key of ``Meta.extra``, and of schemas while they are made
MEDIA_TYPE: Final = re.compile(r"[a-z0-9][\w!#$&^.+-]{0,126}/[a-z0-9][\w!#$&^.+-]{0,126}", re.ASCII)
QUALITIES: Final = range(1, 101)
BITS: Final = (16, 24)


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """The arguments of a ``Format``."""

    media_type: str
    quality: int | None = None  #: for JPEG and WebP, 1 to 100
    bits: int | None = None  #: for a sample of sound


def Format(  # noqa: N802 - stands among types
    media_type: str, *, quality: int | None = None, bits: int | None = None
) -> "msgspec.Meta":
    """Declare how an output is written: ``Annotated[Image, Format("image/jpeg", quality=85)]``.

    :param media_type: sent to clients that take any; within JSON it is the only one.
    :param quality: of JPEG and WebP, 1 to 100, whichever of the two is sent.
    :param bits: of a sample of sound: 16 or 24.
    """
    import msgspec  # not needed to import this module

    media_type = media_type.lower()
    if not MEDIA_TYPE.fullmatch(media_type):
        raise ValueError(f"Format: {media_type!r} is not a media type such as image/png")
    if quality is not None and not (quality in QUALITIES and media_type.startswith("image/")):
        raise ValueError(f"Format: quality {quality} of {media_type}: 1 to 100, of an image")
    if bits is not None and not (bits in BITS and media_type.startswith("audio/")):
        raise ValueError(f"Format: {bits} bits of {media_type}: 16 or 24, of audio")
    declared = OutputFormat(media_type, quality, bits)
    return msgspec.Meta(extra_json_schema={FORMAT: media_type}, extra={FORMAT: declared})
