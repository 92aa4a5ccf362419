# SPDX-License-Identifier: Apache-2.0
"""Pictures as the inputs of models, and scores of classes as answers with labels.

Functions for services of your own, and two objects that do all of it by options: an
``ImageInput`` makes the array that a model takes, a ``ClassOutput`` makes answers of its scores.
Plugins such as ``servekit-onnx`` read their options from ``[options.image]`` and
``[options.output]``.

Light to import: NumPy and Pillow are imported with the first function that needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servekit.vision.class_output import ClassOutput
    from servekit.vision.geometry import ImageGeometry, image_geometry
    from servekit.vision.image_input import ImageInput
    from servekit.vision.labels import find_labels, read_labels
    from servekit.vision.options import ImageOptions, OutputOptions
    from servekit.vision.pictures import (
        center_crop,
        decode_image,
        draw_boxes,
        normalize,
        resize_exact,
        resize_shorter,
        to_array,
    )
    from servekit.vision.recognition import has_classes, why_not_pictures
    from servekit.vision.scores import RankedLabel, sigmoid, softmax, top_k

__all__ = [
    "ClassOutput",
    "ImageGeometry",
    "ImageInput",
    "ImageOptions",
    "OutputOptions",
    "RankedLabel",
    "center_crop",
    "decode_image",
    "draw_boxes",
    "find_labels",
    "has_classes",
    "image_geometry",
    "normalize",
    "read_labels",
    "resize_exact",
    "resize_shorter",
    "sigmoid",
    "softmax",
    "to_array",
    "top_k",
    "why_not_pictures",
]

MODULES = {
    ".class_output": ("ClassOutput",),
    ".geometry": ("ImageGeometry", "image_geometry"),
    ".image_input": ("ImageInput",),
    ".labels": ("find_labels", "read_labels"),
    ".options": ("ImageOptions", "OutputOptions"),
    ".pictures": (
        "center_crop",
        "decode_image",
        "draw_boxes",
        "normalize",
        "resize_exact",
        "resize_shorter",
        "to_array",
    ),
    ".recognition": ("has_classes", "why_not_pictures"),
    ".scores": ("RankedLabel", "sigmoid", "softmax", "top_k"),
}


def __getattr__(name: str) -> Any:
    for module, names in MODULES.items():
        if name in names:
            return getattr(import_module(module, __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
