# SPDX-License-Identifier: Apache-2.0
"""Bodies that are passed on unchanged: bytes, and UTF-8 text."""

from collections.abc import Mapping
from typing import Any

from servekit.errors import BodyMalformed

__all__ = ["MAGIC", "OCTET_STREAM", "raw", "sniff", "text"]

OCTET_STREAM = "application/octet-stream"

#: media type to the offset and the bytes by which its files are recognised
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
    """Return the media type that *body* begins like; ``None`` if it is not known."""
    for media_type, (offset, signature) in MAGIC.items():
        if body[offset : offset + len(signature)] == signature:
            return media_type
    return None


class RawCodec:
    """Passes bytes on, in both directions."""

    takes_views = True

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> bytes:  # noqa: ARG002
        """Return *body*, which may be empty."""
        return body

    def encode(self, output: Any) -> bytes:
        """Return *output*, which must be bytes."""
        if not isinstance(output, bytes | bytearray | memoryview):
            raise TypeError(f"a {type(output).__name__} is not bytes")
        return bytes(output)


class TextCodec:
    """UTF-8 text, which may be empty."""

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return *body* as a string."""
        try:
            return body.decode()
        except UnicodeDecodeError as error:
            raise BodyMalformed(f"body: not UTF-8 (byte {error.start})") from None

    def encode(self, output: Any) -> bytes:
        """Return *output*, which must be a string, as UTF-8."""
        if not isinstance(output, str):
            raise TypeError(f"a {type(output).__name__} is not a string")
        return output.encode()


raw = RawCodec()
text = TextCodec()
