# SPDX-License-Identifier: Apache-2.0
"""The context of a handler."""

from servekit_torchserve.context import HandlerContext as Context
from servekit_torchserve.context import RequestProcessor

__all__ = ["Context", "RequestProcessor"]
