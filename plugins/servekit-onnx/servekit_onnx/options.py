# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of a ``model.toml`` that names the service ``onnx``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from servekit.errors import BootError
from servekit_onnx.hooks import model_files

__all__ = ["Options", "Provider", "find_file", "read_options"]

Provider = str | tuple[str, dict[str, Any]]  #: a name, or a name and its options


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Every key with its default."""

    file: str = ""  #: relative to the archive; "" takes the only .onnx file
    providers: list[Provider] = msgspec.field(default_factory=lambda: ["CPUExecutionProvider"])
    outputs: list[str] = []  #: names of the outputs to compute and answer with; [] is all
    batched: bool = True  #: whether the first axis of every input is the batch
    #: whether replicas share what lies in external data; by default several do. See weights.py
    share_weights: bool | None = None
    #: attributes of ``onnxruntime.SessionOptions``; a key with a dot is a configuration entry
    session: dict[str, bool | int | str] = {}


def read_options(options: Mapping[str, Any]) -> Options:
    """Return *options* checked.

    :raises BootError: a key is unknown, or a value has the wrong type.
    """
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise BootError(f"[options]: {error}") from error


def find_file(directory: Path, file: str) -> Path:
    """Return the path of the graph.

    :raises BootError: it does not exist, or *file* is empty and there is no single candidate.
    """
    if file:
        if not (directory / file).is_file():
            raise BootError(f"[options] file: {file!r} is not in the archive")
        return directory / file
    found = model_files(directory)
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "there is none"
        raise BootError(f"[options] file: needed unless there is exactly one .onnx file; {names}")
    return found[0]
