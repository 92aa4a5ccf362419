# SPDX-License-Identifier: Apache-2.0
"""The context of handlers of MMS 1.x."""

from servekit_mms.handler_context import MMSContext as Context

__all__ = ["Context"]
