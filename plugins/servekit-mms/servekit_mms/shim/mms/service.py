# SPDX-License-Identifier: Apache-2.0
"""The exception of handlers of MMS 1.x."""

from servekit_mms.handler_context import RefusedPrediction as PredictionException

__all__ = ["PredictionException"]
