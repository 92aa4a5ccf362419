# SPDX-License-Identifier: Apache-2.0
"""The handler ``object_detector``."""

from servekit_torchserve.builtin.vision import ObjectDetector

__all__ = ["ObjectDetector"]
