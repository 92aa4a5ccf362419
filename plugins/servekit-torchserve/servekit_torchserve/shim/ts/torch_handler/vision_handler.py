# SPDX-License-Identifier: Apache-2.0
"""The base class of handlers of images."""

from servekit_torchserve.builtin.vision import VisionHandler

__all__ = ["VisionHandler"]
