# SPDX-License-Identifier: Apache-2.0
"""The cost of an input, as ``[batching] cost`` of ``model.toml`` defines it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from servekit.errors import BootError
from servekit.service.base import Service
from servekit.worker.inputs.annotations import streaming_method
from servekit.worker.prediction.cost_calls import InputCost

__all__ = ["input_cost", "length_of"]


def input_cost(service: Service, cost: str, *, is_async: bool) -> InputCost | None:
    """Return what says what an input of *service* costs; ``None`` if *cost* is "".

    :raises BootError: it has no such method, or its inputs do not come in batches.
    """
    if not cost:
        return None
    kind = type(service)
    if is_async or streaming_method(service):
        what = "is async" if is_async else "streams"
        raise BootError(f"batching.cost: {kind.__name__} {what}, and takes one input at a time")
    method: InputCost | None = length_of if cost == "length" else getattr(service, cost, None)
    if not callable(method):
        raise BootError(f'batching.cost: {kind.__name__} has no method {cost}; or write "length"')
    if service.signature is None:
        return method
    return partial(
        _cost_of_arrays, [tensor["name"] for tensor in service.signature["inputs"]], method
    )


def _cost_of_arrays(names: Sequence[str], method: InputCost, arrays: Sequence[Any]) -> float:
    """Return what *method* says of *arrays*, the input of a service with a signature."""
    return method(dict(zip(names, arrays, strict=True)))


def length_of(value: Any) -> float:
    """Return the length of an input; that of its longest part if it has parts with names.

    It is the number of characters of a string, of elements of a list or of the first axis of an
    array, or of bytes. An input without a length, and an empty one, has the length 1.
    """
    if isinstance(value, Mapping):
        return max(map(length_of, value.values()), default=1)
    if getattr(value, "shape", None) == ():
        value = value.item()
    try:
        return max(1, len(value))
    except TypeError:
        return _length_of_fields(value)


def _length_of_fields(value: Any) -> float:
    """Return the length of the longest field of a struct or a dataclass."""
    kind = type(value)
    names = getattr(kind, "__struct_fields__", getattr(kind, "__dataclass_fields__", ()))
    return max((length_of(getattr(value, name)) for name in names), default=1)
