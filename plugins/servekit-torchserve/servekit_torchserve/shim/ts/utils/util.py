# SPDX-License-Identifier: Apache-2.0
"""Labels, and the exception by which a handler refuses a batch."""

from servekit_torchserve.builtin.labels import load_label_mapping, map_class_to_label
from servekit_torchserve.refusals import PredictionException

__all__ = ["PredictionException", "load_label_mapping", "map_class_to_label"]
