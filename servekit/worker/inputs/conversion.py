# SPDX-License-Identifier: Apache-2.0
"""Converts decoded values into annotated types: the leaves first, msgspec does the rest."""

from functools import cache
from typing import Any

import msgspec

from servekit.worker.inputs.leaves import leaf_of
from servekit.worker.inputs.type_tree import (
    MISSING,
    element_type,
    parts,
    types_within,
    without_none,
)

__all__ = ["convert", "given", "holds_leaf"]


def convert(value: Any, type_: Any) -> Any:
    """Return *value*, as decoded, as *type_*.

    :raises NotOfType: a leaf of it cannot be made.
    :raises msgspec.ValidationError: it is not of the type elsewhere.
    """
    made = _made(value, type_) if holds_leaf(type_) else value
    return msgspec.convert(made, type_, str_keys=True, dec_hook=given)


def given(_type: Any, value: Any) -> Any:
    """Return *value*, which is made already; msgspec asks for what it does not know itself."""
    return value


def holds_leaf(type_: Any) -> bool:
    """Whether *type_* is a leaf, or made of one."""
    try:
        return _holds_leaf(type_)
    except TypeError:  # annotated with what has no hash
        return _finds_leaf(type_)


@cache
def _holds_leaf(type_: Any) -> bool:
    return _finds_leaf(type_)


def _finds_leaf(type_: Any) -> bool:
    return any(leaf_of(each) is not None for each in types_within(type_))


def _made(value: Any, type_: Any) -> Any:
    """Return *value* with every leaf of it made; what is of another kind is left to msgspec."""
    type_ = without_none(type_) if value is not None else type_
    leaf = leaf_of(type_)
    if leaf is not None:
        return leaf.make(value)
    if isinstance(value, list) and element_type(type_) is not None:
        inner = element_type(type_)
        return [_made(each, inner) for each in value] if holds_leaf(inner) else value
    if not isinstance(value, list | dict):
        return value
    made = value.copy()
    for part in parts(value, type_):
        if part.value is not MISSING and holds_leaf(part.type):
            made[part.key] = _made(part.value, part.type)
    return made
