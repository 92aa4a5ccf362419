# SPDX-License-Identifier: Apache-2.0
"""The signature of a model: as its file tells it, or as ``model.toml`` declares it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from servekit.errors import BootError
from servekit.vision import ImageOptions
from servekit_torch.opened import Declared

__all__ = ["describe_outputs", "example_batch", "merge_signature", "picture_input"]


def merge_signature(
    declared: Mapping[str, Any] | None,
    inputs: list[Declared] | None,
    outputs: list[Declared] | None,
) -> dict[str, Any]:
    """Return the signature of a model whose file tells *inputs* and *outputs*, if they are known.

    A declared one may say more: a size where the model takes any.

    :raises BootError: neither tells the inputs, or a name, element type or rank differs.
    """
    if declared is None:
        if inputs is None:
            raise BootError(
                "the file does not say what the model takes; declare its inputs in [signature]"
            )
        return {"inputs": inputs, "outputs": outputs or []}
    if inputs is not None and (wanted := _kinds(declared["inputs"])) != (known := _kinds(inputs)):
        raise BootError(f"[signature] inputs: {wanted} is not what the model takes, {known}")
    return {"inputs": declared["inputs"], "outputs": declared.get("outputs") or outputs or []}


def _kinds(tensors: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return name to element type and rank, ``float32[2]``."""
    return {tensor["name"]: f"{tensor['dtype']}[{len(tensor['shape'])}]" for tensor in tensors}


def picture_input(options: ImageOptions) -> Declared:
    """Describe the input of a model of pictures whose file does not: as PyTorch lays them out."""
    channels = 1 if options.color == "gray" else 3
    shape = [-1, -1, channels] if options.layout == "nhwc" else [channels, -1, -1]
    return {"name": "image", "dtype": "float32", "shape": shape}


def example_batch(
    inputs: Sequence[Mapping[str, Any]], count: int
) -> dict[str, np.ndarray[Any, Any]] | None:
    """Return a batch of zeros that fits *inputs*; ``None`` if a size is open."""
    if any(-1 in each["shape"] for each in inputs):
        return None
    return {each["name"]: np.zeros((count, *each["shape"]), each["dtype"]) for each in inputs}


def describe_outputs(outputs: Mapping[str, np.ndarray[Any, Any]]) -> list[Declared]:
    """Describe *outputs*, whose first axis is the batch."""
    return [
        {"name": name, "dtype": rows.dtype.name, "shape": list(rows.shape[1:])}
        for name, rows in outputs.items()
    ]
