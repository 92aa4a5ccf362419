# SPDX-License-Identifier: Apache-2.0
"""The types of metrics."""

from servekit_torchserve.handler_metrics import MetricTypes

__all__ = ["MetricTypes"]
