# SPDX-License-Identifier: Apache-2.0
"""Pictures, sound and files as content of a media type, and in JSON and msgpack.

There they are ``{"b64": content, "content_type": ..., "name": ...}``, which inputs may be, too.
"""

from typing import Any, Final

from servekit.types import Audio, File, Image

__all__ = ["as_mapping", "file_of", "is_media"]

MEDIA: Final = (Image, Audio, File)


def is_media(value: Any) -> bool:
    """Whether *value* is a picture, a sound or a file."""
    return isinstance(value, MEDIA)


def file_of(value: Any, media_type: str = "", quality: int | None = None, bits: int = 16) -> File:
    """Return *value*, which is media, as a file; a file is returned unchanged.

    :param media_type: of a picture or a sound; without it PNG or WAV.
    :param quality: of a picture as JPEG or WebP.
    :param bits: of a sample of sound.
    :raises ValueError: the media type cannot hold it.
    """
    if isinstance(value, File):
        return value
    if isinstance(value, Audio):
        from servekit.types.audio import WAV, write_audio  # imports numpy

        media_type = media_type or WAV
        return File("", media_type, write_audio(value, media_type, bits))
    from servekit.types.images import PNG, write_image  # imports Pillow

    media_type = media_type or PNG
    return File("", media_type, write_image(value, media_type, quality))


def as_mapping(file: File) -> dict[str, Any]:
    """Return *file* as it is in JSON and msgpack; what it does not have is left out.

    :raises TypeError: its content is not bytes.
    """
    content = file.content
    told = {"content_type": file.content_type, "name": file.name}
    return {
        "b64": content if type(content) is bytes else bytes(memoryview(content)),
        **{key: text for key, text in told.items() if text},
    }
