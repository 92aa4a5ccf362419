# SPDX-License-Identifier: Apache-2.0
"""Types whose values travel between stages of different processes, registered by authors."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

__all__ = ["ValueType", "name_of", "register_value_type", "registered", "registered_by_name"]

T = TypeVar("T")


class ValueType(NamedTuple):
    """How values of one type are written and read."""

    write: Callable[[Any], Any]  #: a value to something that can travel itself
    read: Callable[[Any], Any]  #: the inverse


registered: dict[type, ValueType] = {}
registered_by_name: dict[str, ValueType] = {}


def register_value_type(
    kind: type[T], *, write: Callable[[T], Any], read: Callable[[Any], T]
) -> None:
    """Let values of *kind* travel between stages that run in different processes.

    Call it where *kind* is defined, or at the top level of another module that both stages import.
    Values of a subclass travel too, and arrive as *kind*. Runs in: worker.

    :param write: returns a representation of a value: numbers, strings, bytes, arrays, lists,
        tuples, mappings, or values of types that travel themselves.
    :param read: makes the value again of what *write* has returned.
    :raises ValueError: *kind* is registered already.
    """
    if kind in registered:
        raise ValueError(f"{name_of(kind)} is registered already")
    registered[kind] = registered_by_name[name_of(kind)] = ValueType(write, read)


def name_of(kind: type) -> str:
    """Return ``module:Class`` of *kind*."""
    return f"{kind.__module__}:{kind.__qualname__}"
