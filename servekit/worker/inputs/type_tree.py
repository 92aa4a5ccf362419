# SPDX-License-Identifier: Apache-2.0
"""Types as trees: their leaves, and values and types taken apart side by side."""

import typing
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

from servekit.types.arrays import ARRAY
from servekit.worker.inputs.leaves import Leaf
from servekit.worker.inputs.media_leaf import LEAVES
from servekit.worker.inputs.model_leaf import is_model, model_leaf
from servekit.worker.inputs.type_fields import fields_in_order, known_fields
from servekit.worker.inputs.type_hints import bare, is_union, members, once_for_each, peeled

__all__ = [
    "MISSING",
    "SHOWN_KEY",
    "UNKNOWN",
    "InputPart",
    "element_type",
    "entry_type",
    "fields_of",
    "holds_leaf",
    "key_type",
    "leaf_of",
    "parts",
    "type_for",
    "types_in_order",
    "types_within",
    "without_none",
]

SHOWN_KEY: Final = 80  #: characters of a key in a path
MISSING: Final = object()
UNKNOWN: Final = object()


class InputPart(NamedTuple):
    """One element, entry or field of a value."""

    path: str  #: below the whole: ``.x`` or ``[3]``
    key: Any  #: in the mapping or the list
    value: Any  #: ``MISSING`` if it is required, ``UNKNOWN`` if the type has no such field
    type: Any


@once_for_each
def leaf_of(type_: Any) -> Leaf | None:
    """Return the leaf that makes values of *type_*; ``None`` if msgspec makes them."""
    for meta in getattr(type_, "__metadata__", ()):
        declared = (getattr(meta, "extra", None) or {}).get(ARRAY)
        if declared is not None:
            from servekit.worker.inputs.array_leaf import array_leaf  # imports numpy

            return array_leaf(declared, bare(type_))
    if isinstance(type_, type):
        return model_leaf(type_) if is_model(type_) else LEAVES.get(type_)
    inner = peeled(type_)
    return None if inner is type_ else leaf_of(inner)


@once_for_each
def holds_leaf(type_: Any) -> bool:
    """Whether *type_* is a leaf or contains one."""
    return any(leaf_of(each) is not None for each in types_within(type_))


@once_for_each
def without_none(type_: Any) -> Any:
    """Return the ``T`` of ``T | None`` or ``T | UnsetType``; any other union unchanged.

    What is around it is left out, unless it is a leaf.
    """
    if leaf_of(type_) is not None:
        return type_
    if is_union(type_):
        left = [each for each in typing.get_args(type_) if members(each)]
        return without_none(left[0]) if len(left) == 1 else type_
    inner = peeled(type_)
    return type_ if inner is type_ else without_none(inner)


def type_for(value: Any, type_: Any) -> Any:
    """Return the ``T`` of ``T | None``; of a larger union the member that *value* is meant for."""
    type_ = without_none(type_)
    if not isinstance(value, list | dict) or not is_union(type_):
        return type_
    of_lists, of_objects = _members_with_parts(type_)
    if isinstance(value, list):
        return _tagged(of_lists, value[0] if value else None, type_)
    tag_field = _config(of_objects[0]).tag_field if len(of_objects) > 1 else ""
    return _tagged(of_objects, value.get(tag_field), type_)


@once_for_each
def _members_with_parts(union: Any) -> tuple[list[Any], list[Any]]:
    """Return the members of *union* that lists are meant for, and those for objects.

    Where there are several, msgspec wants each to be a Struct with a tag.
    """
    every = members(union)
    of_objects = [each for each in every if entry_type(each) is not None or fields_of(each)]
    return [each for each in every if element_type(each) or types_in_order(each)], of_objects


def _tagged(kinds: Sequence[Any], tag: Any, union: Any) -> Any:
    """Return the only one of *kinds*, or that of *tag*; the *union* if there is none."""
    if len(kinds) == 1:
        return kinds[0]
    return next((each for each in kinds if _config(each).tag == tag), union)


def _config(struct: Any) -> Any:
    return (typing.get_origin(struct) or struct).__struct_config__


@once_for_each
def element_type(type_: Any) -> Any:
    """Return the type that all elements of a list share; ``None`` if *type_* has no such type.

    :param type_: as ``without_none`` returns it.
    """
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    is_named = hasattr(origin, "_fields")
    has_own_types = is_named or (origin is tuple and arguments[1:] != (...,))
    is_list = arguments and _is(origin, Sequence, Set) and not has_own_types
    return arguments[0] if is_list else None


@once_for_each
def entry_type(type_: Any) -> Any:
    """Return the type that all values of a mapping share; ``None`` if there is no such type."""
    return typing.get_args(type_)[1] if _is_mapping(type_) else None


@once_for_each
def key_type(type_: Any) -> Any:
    """Return the type of the keys of a mapping that are not all strings; else ``None``."""
    keys = typing.get_args(type_)[0] if _is_mapping(type_) else str
    return None if keys is str else keys


def _is_mapping(type_: Any) -> bool:
    return len(typing.get_args(type_)) == 2 and _is(typing.get_origin(type_), Mapping)


def types_in_order(type_: Any) -> Sequence[Any]:
    """Return the types of the elements of a list that have one each."""
    if typing.get_origin(type_) is tuple and element_type(type_) is None:
        return typing.get_args(type_)
    return fields_in_order(type_)


def parts(value: Any, type_: Any) -> Iterator[InputPart]:
    """Yield the parts of *value* whose types *type_* tells.

    The elements of a list that share one type are left out, see ``element_type``.
    """
    if isinstance(value, list):
        known = zip(value, types_in_order(type_), strict=False)
        for place, (inner, inner_type) in enumerate(known):
            yield InputPart(f"[{place}]", place, inner, inner_type)
    elif isinstance(value, dict):
        if (inner_type := entry_type(type_)) is not None:
            for key, inner in value.items():
                yield InputPart(f"[{str(key)[:SHOWN_KEY]}]", key, inner, inner_type)
        else:
            yield from _field_parts(value, type_)


def types_within(type_: Any) -> list[Any]:
    """Return *type_* and the types of its fields, elements and members, each once."""
    found: dict[int, Any] = {}
    waiting = [type_]
    while waiting:
        type_ = waiting.pop()
        if id(type_) not in found:
            found[id(type_)] = type_
            waiting += _inner_types(type_)
    return list(found.values())


def _inner_types(type_: Any) -> list[Any]:
    if (inner := peeled(type_)) is not type_:
        return [inner]
    if leaf_of(type_) is not None:
        return []
    return [*typing.get_args(type_), *fields_of(type_).values(), *types_in_order(type_)]


def _is(type_: Any, *kinds: type) -> bool:
    return isinstance(type_, type) and issubclass(type_, kinds)


def _field_parts(value: dict[str, Any], type_: Any) -> Iterator[InputPart]:
    types, required, forbids_others = known_fields(type_)
    for name, inner_type in types.items():
        if name in value or name in required:
            yield InputPart(f".{name}", name, value.get(name, MISSING), inner_type)
    if forbids_others:
        for name in value:
            if name not in types:
                yield InputPart(f".{str(name)[:SHOWN_KEY]}", name, UNKNOWN, None)


def fields_of(type_: Any) -> Mapping[str, Any]:
    """Return the types of the fields of *type_* by name; empty if it has no fields."""
    return known_fields(type_).types
