# SPDX-License-Identifier: Apache-2.0
"""The base class of handlers of text."""

from servekit_torchserve.builtin.text import TextHandler

__all__ = ["TextHandler"]
