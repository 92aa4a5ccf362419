# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports neither Pillow nor NumPy."""

from collections.abc import Mapping

from servekit import hookimpl
from servekit.hookspecs import CodecTarget

__all__ = ["register_codecs"]


PIXELS = ["uint8[any, any, 3]"]
WRITTEN = ["uint8[any, any]", *PIXELS, "uint8[any, any, 4]"]


@hookimpl
def register_codecs() -> Mapping[str, str]:
    """Offer PNG, JPEG and WebP, both ways."""
    return {
        f"image/{kind}": CodecTarget(f"servekit_image.codecs:{kind}", reads=PIXELS, writes=WRITTEN)
        for kind in ("png", "jpeg", "webp")
    }
