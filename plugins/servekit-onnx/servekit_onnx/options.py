# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of a ``model.toml`` that names the service ``onnx``."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from servekit.vision import ImageOptions, OutputOptions

__all__ = ["OnnxOptions", "Pooling", "Provider", "TextOptions"]

Provider = str | tuple[str, dict[str, Any]]  #: a name, or a name and its options
Pooling = Literal["mean", "cls", "max"]


class TextOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """``[options.text]``: how text becomes ids, and outputs become vectors."""

    tokenizer: str = "tokenizer.json"  #: relative to the archive
    #: number of tokens beyond which text is cut off; by default that of the tokenizer's file
    max_length: Annotated[int, Meta(ge=1)] | None = None
    #: makes one vector of those of the tokens; by default ``mean`` if the output has one for each
    pooling: Pooling | None = None
    normalize: bool = True  #: whether vectors are scaled to length 1


class OnnxOptions(Struct):
    """Every key with its default."""

    file: str = ""  #: relative to the archive; "" takes the only .onnx file
    providers: list[Provider] = field(default_factory=lambda: ["CPUExecutionProvider"])
    outputs: list[str] = []  #: names of the outputs to compute and answer with; [] is all
    batched: bool = True  #: whether the first axis of every input is the batch
    #: whether replicas share external data; by default they do if there are several (weights.py)
    share_weights: bool | None = None
    #: attributes of ``onnxruntime.SessionOptions``; a key with a dot is a configuration entry
    session: dict[str, bool | int | str] = {}
    image: ImageOptions | None = None  #: the inputs are pictures
    text: TextOptions | None = None  #: the inputs are text
    output: OutputOptions | None = None  #: the output is the score of each class
