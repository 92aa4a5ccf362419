# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of a ``model.toml`` that names the service ``torch``."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from servekit.vision import ImageOptions, OutputOptions

__all__ = ["CompileOptions", "TorchOptions"]


class CompileOptions(msgspec.Struct, forbid_unknown_fields=True):
    """``[options.compile]``: the arguments of ``torch.compile``."""

    mode: str = "default"
    backend: str = "inductor"
    fullgraph: bool = False


class TorchOptions(msgspec.Struct, rename={"class_": "class"}):
    """Every key with its default."""

    file: str = ""  #: relative to the archive; "" takes the only .pt2, .pt, .pth or .safetensors
    class_: str = ""  #: ``module:Class`` of the nn.Module that the file has weights for
    arguments: dict[str, Any] = {}  #: keyword arguments of the class
    device: str = "auto"  #: "auto" is the accelerator that the deployment gives, or the CPU
    dtype: Literal["", "float16", "bfloat16", "float32", "float64"] = ""  #: "": as in the file
    channels_last: bool = False  #: whether images are [n, h, w, c] in memory
    compile: bool | CompileOptions = False
    #: sizes of the batches that the model is run with; others are padded. Empty: any size
    sizes: list[Annotated[int, Meta(ge=1)]] = []
    outputs: list[str] = []  #: outputs of a mapping to serve, or names for those of a tuple
    batched: bool = True  #: whether the first axis of every input is the batch
    image: ImageOptions | None = None  #: the inputs are pictures
    output: OutputOptions | None = None  #: the output is the score of each class
