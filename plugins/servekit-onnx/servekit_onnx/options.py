# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of a ``model.toml`` that names the service ``onnx``."""

from typing import Any

import msgspec

__all__ = ["OnnxOptions", "Provider"]

Provider = str | tuple[str, dict[str, Any]]  #: a name, or a name and its options


class OnnxOptions(msgspec.Struct):
    """Every key with its default."""

    file: str = ""  #: relative to the archive; "" takes the only .onnx file
    providers: list[Provider] = msgspec.field(default_factory=lambda: ["CPUExecutionProvider"])
    outputs: list[str] = []  #: names of the outputs to compute and answer with; [] is all
    batched: bool = True  #: whether the first axis of every input is the batch
    #: whether replicas share external data; by default they do if there are several (weights.py)
    share_weights: bool | None = None
    #: attributes of ``onnxruntime.SessionOptions``; a key with a dot is a configuration entry
    session: dict[str, bool | int | str] = {}
