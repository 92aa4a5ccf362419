# SPDX-License-Identifier: Apache-2.0
"""The handler ``text_classifier``."""

from servekit_torchserve.builtin.text import TextClassifier

__all__ = ["TextClassifier"]
