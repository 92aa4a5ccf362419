# SPDX-License-Identifier: Apache-2.0
"""From what ``forward`` returns to arrays with names."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from servekit.errors import BootError

__all__ = ["named_outputs", "to_array"]

ALONE = "output"  #: the name of a single tensor


def named_outputs(result: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the tensors of *result* by name.

    :param result: a tensor, a tuple or list of them, a mapping, a named tuple or a dataclass.
    :param names: which outputs to take of those that have names; for others, the names of the
        first ones. Empty: all of them.
    :raises BootError: an output is not a tensor, or there is none of this name.
    """
    found = _by_name(result, names)
    if missing := [name for name in names if name not in found]:
        raise BootError(f"the model has no output {missing[0]}; it has {', '.join(found)}")
    chosen = {name: found[name] for name in names} if names else found
    for name, each in chosen.items():
        if not torch.is_tensor(each):
            raise BootError(
                f"output {name} is a {type(each).__name__}, not a tensor; name the outputs to "
                "serve in [options] outputs"
            )
    return chosen


def _by_name(result: Any, names: Sequence[str]) -> dict[str, Any]:
    if torch.is_tensor(result):
        return {names[0] if len(names) == 1 else ALONE: result}
    if hasattr(result, "_asdict"):
        result = result._asdict()
    elif dataclasses.is_dataclass(result) and not isinstance(result, Mapping | type):
        result = {each.name: getattr(result, each.name) for each in dataclasses.fields(result)}
    if isinstance(result, Mapping):  # models leave optional outputs None
        return {str(name): each for name, each in result.items() if each is not None}
    if isinstance(result, Sequence) and not isinstance(result, str | bytes):
        given = [*names, *(f"{ALONE}_{place}" for place in range(len(names), len(result)))]
        return dict(zip(given, result, strict=False))
    return {ALONE: result}


def to_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return *tensor* as an array, which shares its memory on the CPU; bfloat16 becomes float32."""
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    array: np.ndarray[Any, Any] = tensor.detach().cpu().numpy(force=False)
    return array
