# SPDX-License-Identifier: Apache-2.0
"""Whether a model classifies pictures, as far as its inputs and outputs tell."""

from collections.abc import Mapping, Sequence
from typing import Any

from servekit.errors import BootError
from servekit.vision.geometry import image_geometry
from servekit.vision.options import ImageOptions

__all__ = ["has_classes", "why_not_pictures"]

Tensors = Sequence[Mapping[str, Any]]  #: ``{"name", "dtype", "shape"}``, without the batch axis


def why_not_pictures(inputs: Tensors, outputs: Tensors) -> str:
    """Return why a model does not classify pictures without any option; "" if it does."""
    if len(inputs) != 1:
        return "the model has several inputs"
    if not has_classes(outputs):
        return "the model does not have one output with a score for each class"
    try:
        image_geometry(ImageOptions(), inputs[0]["shape"], inputs[0]["dtype"])
    except BootError as error:
        return str(error)
    return ""


def has_classes(outputs: Tensors) -> bool:
    """Whether the only output is one score for each class, on one axis."""
    if len(outputs) != 1:
        return False
    shape = outputs[0]["shape"]
    return bool(shape) and all(size == 1 for size in shape[1:])
