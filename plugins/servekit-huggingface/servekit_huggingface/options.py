# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of the services of this plugin."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from servekit.vision import OutputOptions

__all__ = ["ClassifierOptions", "EmbeddingOptions", "GenerationOptions", "TransformersOptions"]

Positive = Annotated[int, Meta(ge=1)]


class TransformersOptions(Struct, kw_only=True):
    """The keys that all of them have."""

    device: str = "auto"  #: "auto" is the first GPU that the replica has, otherwise the CPU
    #: element type of the weights; "auto" is that of the file, which replicas can share
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    allow_pickle: bool = False  #: read ``pytorch_model.bin`` where there are no safetensors
    trust_remote_code: bool = False  #: refused, with the reason


class ClassifierOptions(TransformersOptions, kw_only=True):
    """The keys for images; and for strings and tokens, with ``max_tokens``."""

    output: OutputOptions = field(default_factory=OutputOptions)
    max_tokens: Positive | None = None  #: longer inputs are cut; default: what the model takes


class EmbeddingOptions(TransformersOptions, kw_only=True):
    """The keys for embeddings. If sentence-transformers saved the model, it says the defaults."""

    pooling: Literal["mean", "cls", "last"] | None = None  #: default: mean
    normalize: bool | None = None  #: vectors of length 1; default: true
    max_tokens: Positive | None = None  #: longer inputs are cut; default: what the model takes


class GenerationOptions(TransformersOptions, kw_only=True):
    """The keys for chats and completions."""

    max_context: Positive | None = None  #: tokens of prompt and answer; default: the model's limit
    max_tokens: Positive | None = None  #: of an answer, whatever clients ask for
    #: tokens of prompts that are read in one step, while other answers wait for their next token
    prefill_tokens: Positive = 512
