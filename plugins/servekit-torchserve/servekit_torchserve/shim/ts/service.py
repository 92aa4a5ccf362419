# SPDX-License-Identifier: Apache-2.0
"""The exception by which a handler refuses a batch."""

from servekit_torchserve.refusals import PredictionException

__all__ = ["PredictionException"]
