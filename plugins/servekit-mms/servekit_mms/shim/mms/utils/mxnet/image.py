# SPDX-License-Identifier: Apache-2.0
"""Pictures."""

from servekit_mms.images import color_normalize, fixed_crop, read, resize, transform_shape, write

__all__ = ["color_normalize", "fixed_crop", "read", "resize", "transform_shape", "write"]
