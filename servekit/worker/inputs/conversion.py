# SPDX-License-Identifier: Apache-2.0
"""Converts decoded values into annotated types: first the leaves, then msgspec does the rest."""

from typing import Any

import msgspec

from servekit.worker.inputs.type_tree import (
    MISSING,
    element_type,
    holds_leaf,
    leaf_of,
    parts,
    without_none,
)

__all__ = ["as_made", "convert"]


def convert(value: Any, type_: Any) -> Any:
    """Return a decoded *value* as *type_*.

    :raises NotOfType: a leaf of it cannot be made.
    :raises msgspec.ValidationError: it is not of the type elsewhere.
    """
    with_leaves = _with_leaves(value, type_) if holds_leaf(type_) else value
    return msgspec.convert(with_leaves, type_, str_keys=True, dec_hook=as_made)


def as_made(_type: Any, value: Any) -> Any:
    """Return *value*, a leaf that is made already: the ``dec_hook`` of msgspec."""
    return value


def _with_leaves(value: Any, type_: Any) -> Any:
    """Return *value* with its leaves made. A value of another kind is left to msgspec."""
    type_ = without_none(type_) if value is not None else type_
    leaf = leaf_of(type_)
    if leaf is not None:
        return leaf.make(value)
    if isinstance(value, list) and (inner := element_type(type_)) is not None:
        return [_with_leaves(each, inner) for each in value] if holds_leaf(inner) else value
    if not isinstance(value, list | dict):
        return value
    made = value.copy()
    for part in parts(value, type_):
        if part.value is not MISSING and holds_leaf(part.type):
            made[part.key] = _with_leaves(part.value, part.type)
    return made
