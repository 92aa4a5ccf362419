# SPDX-License-Identifier: Apache-2.0
"""The handler ``image_classifier``."""

from servekit_torchserve.builtin.vision import ImageClassifier

__all__ = ["ImageClassifier"]
