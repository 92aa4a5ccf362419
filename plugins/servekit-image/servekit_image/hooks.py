# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports neither Pillow nor NumPy."""

from collections.abc import Mapping

from servekit import hookimpl
from servekit.hookspecs import CodecTarget, ReadOnly

__all__ = ["register_codecs"]


PIXELS = ["uint8[any, any, 3]"]
WRITTEN = ["uint8[any, any]", *PIXELS, "uint8[any, any, 4]"]


@hookimpl
def register_codecs() -> Mapping[str, str]:
    """Offer PNG both ways, JPEG and WebP inwards."""
    return {
        "image/png": CodecTarget("servekit_image.codecs:png", reads=PIXELS, writes=WRITTEN),
        "image/jpeg": ReadOnly("servekit_image.codecs:jpeg", reads=PIXELS),
        "image/webp": ReadOnly("servekit_image.codecs:webp", reads=PIXELS),
    }
