# SPDX-License-Identifier: Apache-2.0
"""The dimension of a metric."""

from servekit_torchserve.handler_metrics import Dimension

__all__ = ["Dimension"]
