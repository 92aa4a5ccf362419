# SPDX-License-Identifier: Apache-2.0
"""Converts decoded values into annotated types: first the leaves, then msgspec does the rest."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from servekit.worker.inputs.type_fields import known_fields
from servekit.worker.inputs.type_hints import is_union, once_for_each, takes_none
from servekit.worker.inputs.type_tree import (
    element_type,
    entry_type,
    holds_leaf,
    leaf_of,
    type_for,
    types_in_order,
    without_none,
)

__all__ = ["as_made", "convert"]

Key = TypeVar("Key")


def convert(value: Any, type_: Any) -> Any:
    """Return a decoded *value* as *type_*.

    :raises NotOfType: a leaf of it cannot be made.
    :raises msgspec.ValidationError: it is not of the type elsewhere.
    """
    leaves = _leaves_of(type_)
    with_leaves = leaves.make(value) if leaves is not None else value
    return msgspec.convert(with_leaves, type_, str_keys=True, dec_hook=as_made)


def as_made(_type: Any, value: Any) -> Any:
    """Return *value*, a leaf that is made already: the ``dec_hook`` of msgspec."""
    return value


@once_for_each
def _leaves_of(type_: Any) -> "_Leaves | None":
    return _Leaves(type_) if holds_leaf(type_) else None


class _Leaves:
    """Makes the leaves in values of one type. What is inside is looked up when it is needed."""

    def __init__(self, type_: Any) -> None:
        """Look at the outermost part of *type_*."""
        self._type = without_none(type_)
        self._leaf = leaf_of(self._type)
        self._takes_none = takes_none(type_)
        self._is_union = self._leaf is None and is_union(self._type)

    def make(self, value: Any) -> Any:
        """Return *value* with its leaves made. A value of another kind is left to msgspec.

        :raises NotOfType: a leaf cannot be made.
        """
        if self._leaf is not None:
            return None if value is None and self._takes_none else self._leaf.make(value)
        if not isinstance(value, list | dict):
            return value
        if self._is_union:
            member = type_for(value, self._type)
            leaves = None if is_union(member) else _leaves_of(member)
            return value if leaves is None else leaves.make(value)
        return self._of_list(value) if isinstance(value, list) else self._of_object(value)

    def _of_list(self, value: list[Any]) -> list[Any]:
        if (elements := self._elements) is not None:
            return [elements.make(each) for each in value]
        made = value.copy()
        for place, leaves in self._places:
            if place < len(made):
                made[place] = leaves.make(made[place])
        return made

    def _of_object(self, value: dict[Any, Any]) -> dict[Any, Any]:
        if (entries := self._entries) is not None:
            return {key: entries.make(each) for key, each in value.items()}
        made = value.copy()
        for name, leaves in self._fields:
            if name in made:
                made[name] = leaves.make(made[name])
        return made

    @cached_property
    def _elements(self) -> "_Leaves | None":
        return _leaves_of(element_type(self._type))

    @cached_property
    def _entries(self) -> "_Leaves | None":
        return _leaves_of(entry_type(self._type))

    @cached_property
    def _places(self) -> "list[tuple[int, _Leaves]]":
        return _of_parts(enumerate(types_in_order(self._type)))

    @cached_property
    def _fields(self) -> "list[tuple[str, _Leaves]]":
        return _of_parts(known_fields(self._type).types.items())


def _of_parts(types: Iterable[tuple[Key, Any]]) -> list[tuple[Key, _Leaves]]:
    found = ((key, _leaves_of(type_)) for key, type_ in types)
    return [(key, leaves) for key, leaves in found if leaves is not None]
