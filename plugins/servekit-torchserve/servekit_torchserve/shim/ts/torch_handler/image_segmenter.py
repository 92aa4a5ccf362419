# SPDX-License-Identifier: Apache-2.0
"""The handler ``image_segmenter``."""

from servekit_torchserve.builtin.vision import ImageSegmenter

__all__ = ["ImageSegmenter"]
