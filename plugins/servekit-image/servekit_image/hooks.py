# SPDX-License-Identifier: Apache-2.0
"""What this plugin offers; imports neither Pillow nor NumPy."""

from collections.abc import Mapping

from servekit import hookimpl
from servekit.hookspecs import ReadOnly

__all__ = ["register_codecs"]


@hookimpl
def register_codecs() -> Mapping[str, str]:
    """Offer PNG both ways, JPEG and WebP inwards."""
    return {
        "image/png": "servekit_image.codecs:png",
        "image/jpeg": ReadOnly("servekit_image.codecs:jpeg"),
        "image/webp": ReadOnly("servekit_image.codecs:webp"),
    }
