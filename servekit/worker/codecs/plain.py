# SPDX-License-Identifier: Apache-2.0
"""Bodies that are what they are: bytes, and text."""

from collections.abc import Mapping
from typing import Any

from servekit.errors import BodyMalformed

__all__ = ["OCTET_STREAM", "raw", "sniff", "text"]

OCTET_STREAM = "application/octet-stream"

#: what a body of bytes begins with, at which offset, by media type
MAGIC = {
    "image/png": (0, b"\x89PNG\r\n\x1a\n"),
    "image/jpeg": (0, b"\xff\xd8\xff"),
    "image/gif": (0, b"GIF8"),
    "image/webp": (8, b"WEBP"),
    "image/bmp": (0, b"BM"),
    "audio/wav": (8, b"WAVE"),
    "audio/flac": (0, b"fLaC"),
    "audio/ogg": (0, b"OggS"),
    "video/mp4": (4, b"ftyp"),
    "video/webm": (0, b"\x1aE\xdf\xa3"),
}


def sniff(body: bytes) -> str | None:
    """Return the media type whose signature *body* bears; ``None`` if it bears none."""
    for media_type, (offset, signature) in MAGIC.items():
        if body[offset : offset + len(signature)] == signature:
            return media_type
    return None


class RawCodec:
    """Hands bytes through, both ways."""

    takes_views = True

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> bytes:  # noqa: ARG002
        """Return *body*; none at all is bytes, too."""
        return body

    def encode(self, output: Any) -> bytes:
        """Return *output*.

        :raises TypeError: it is not bytes.
        """
        if not isinstance(output, bytes | bytearray | memoryview):
            raise TypeError(f"a {type(output).__name__} is not bytes")
        return bytes(output)


class TextCodec:
    """UTF-8 text; an empty text is a text."""

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return *body* as text.

        :raises BodyMalformed: it is not UTF-8.
        """
        try:
            return body.decode()
        except UnicodeDecodeError as error:
            raise BodyMalformed(f"body: not UTF-8 (byte {error.start})") from None

    def encode(self, output: Any) -> bytes:
        """Return *output* as UTF-8.

        :raises TypeError: it is not a text.
        """
        if not isinstance(output, str):
            raise TypeError(f"a {type(output).__name__} is not a text")
        return output.encode()


raw = RawCodec()
text = TextCodec()
