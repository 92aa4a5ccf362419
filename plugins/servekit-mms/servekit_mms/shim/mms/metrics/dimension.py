# SPDX-License-Identifier: Apache-2.0
"""Dimensions of metrics."""

from servekit_mms.handler_context import MetricDimension as Dimension

__all__ = ["Dimension"]
