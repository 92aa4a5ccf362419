# SPDX-License-Identifier: Apache-2.0
"""The base class of most handlers."""

from servekit_torchserve.builtin.base_handler import BaseHandler

__all__ = ["BaseHandler"]
