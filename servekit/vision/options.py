# SPDX-License-Identifier: Apache-2.0
"""``[options.image]`` and ``[options.output]``, which the options of plugins contain."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = [
    "Activation",
    "Color",
    "ImageOptions",
    "Interpolation",
    "Layout",
    "OutputOptions",
    "Resize",
]

Pixels = Annotated[int, Meta(ge=1, le=1 << 12)]
Activation = Literal["softmax", "sigmoid", "none"]
Color = Literal["rgb", "bgr", "gray"]
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
Layout = Literal["nchw", "nhwc"]
#: ``cover``: the smallest picture of the same proportions that covers the input, whose center is
#: taken; ``exact``: stretched to the input; a number: pixels of the shorter side, then the center
Resize = Literal["cover", "exact"] | Pixels


class ImageOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """How a picture becomes the input of a model. What is left out, the model's input tells."""

    size: tuple[Pixels, Pixels] | None = None  #: height and width of the input
    resize: Resize = "cover"
    interpolation: Interpolation = "bilinear"
    color: Color | None = None  #: by default ``rgb`` or ``gray``, by the number of channels
    layout: Layout | None = None  #: by default where the shape of the input has 1 or 3 channels
    #: numbers of black and of white: by default 0 and 1, 0 and 255 for an input of bytes
    scale: tuple[float, float] | None = None
    mean: list[float] = []  #: subtracted after ``scale``: one number, or one for each channel
    std: list[float] = []  #: the result is divided by these, likewise


class OutputOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """How the scores of a model become an answer."""

    top: Annotated[int, Meta(ge=1)] = 5  #: number of classes to answer with
    #: file of labels, relative to the archive; "" takes one that is found, see ``find_labels``
    labels: str = ""
    #: makes probabilities of scores; by default ``softmax``, or ``none`` if they are probabilities
    activation: Activation | None = None
