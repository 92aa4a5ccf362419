# SPDX-License-Identifier: Apache-2.0
"""Types as trees: their leaves, and values and types taken apart side by side."""

import dataclasses
import typing
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from types import NoneType
from typing import Any, Final, NamedTuple

import msgspec

from servekit.types.arrays import ARRAY
from servekit.worker.inputs.leaves import Leaf
from servekit.worker.inputs.media_leaf import LEAVES
from servekit.worker.inputs.model_leaf import is_model, model_leaf
from servekit.worker.inputs.type_hints import is_union

__all__ = [
    "MISSING",
    "UNKNOWN",
    "InputPart",
    "element_type",
    "fields_of",
    "holds_leaf",
    "leaf_of",
    "parts",
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


def leaf_of(type_: Any) -> Leaf | None:
    """Return the leaf that makes values of *type_*; ``None`` if msgspec makes them."""
    if typing.get_origin(type_) is typing.Annotated:
        for meta in type_.__metadata__:
            declared = (getattr(meta, "extra", None) or {}).get(ARRAY)
            if declared is not None:
                from servekit.worker.inputs.array_leaf import array_leaf  # imports numpy

                return array_leaf(declared, type_.__origin__)
    elif isinstance(type_, type):
        return model_leaf(type_) if is_model(type_) else LEAVES.get(type_)
    return None


def holds_leaf(type_: Any) -> bool:
    """Whether *type_* is a leaf or contains one."""
    try:
        return _holds_leaf(type_)
    except TypeError:  # its metadata cannot be hashed
        return _holds_leaf.__wrapped__(type_)


@cache
def _holds_leaf(type_: Any) -> bool:
    return any(leaf_of(each) is not None for each in types_within(type_))


def without_none(type_: Any) -> Any:
    """Return the ``T`` of ``T | None``, without annotations; any other union unchanged."""
    origin = typing.get_origin(type_)
    if origin in (typing.Required, typing.NotRequired):
        return without_none(typing.get_args(type_)[0])
    if origin is typing.Annotated:
        return type_ if leaf_of(type_) else without_none(typing.get_args(type_)[0])
    if is_union(type_):
        members = [each for each in typing.get_args(type_) if each is not NoneType]
        return without_none(members[0]) if len(members) == 1 else type_
    return type_


def element_type(type_: Any) -> Any:
    """Return the type that all elements of a list share; ``None`` if *type_* has no such type.

    :param type_: as ``without_none`` returns it.
    """
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    has_own_types = origin is tuple and arguments[1:] != (...,)
    is_list = arguments and _is(origin, Sequence, Set) and not has_own_types
    return arguments[0] if is_list else None


def parts(value: Any, type_: Any) -> Iterator[InputPart]:
    """Yield the parts of *value* whose types *type_* tells.

    The elements of a list that share one type are left out, see ``element_type``.
    """
    arguments = typing.get_args(type_)
    if isinstance(value, list):
        for place, (inner, inner_type) in enumerate(zip(value, _in_order(type_), strict=False)):
            yield InputPart(f"[{place}]", place, inner, inner_type)
    elif isinstance(value, dict):
        if len(arguments) == 2 and _is(typing.get_origin(type_), Mapping):
            for key, inner in value.items():
                yield InputPart(f"[{str(key)[:SHOWN_KEY]}]", key, inner, arguments[1])
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
    if leaf_of(type_) is not None:
        return []
    arguments = typing.get_args(type_)
    members = arguments[:1] if typing.get_origin(type_) is typing.Annotated else arguments
    if not isinstance(type_, type):  # ``type X = ...``, or a NewType
        names = ("__value__", "__supertype__")
        members = (*members, *(getattr(type_, name) for name in names if hasattr(type_, name)))
    return [*members, *fields_of(type_).values(), *_in_order(type_)]


def _is(type_: Any, *kinds: type) -> bool:
    return isinstance(type_, type) and issubclass(type_, kinds)


def _in_order(type_: Any) -> Sequence[Any]:
    """Return the types of elements that have one each."""
    if typing.get_origin(type_) is tuple and element_type(type_) is None:
        return typing.get_args(type_)
    if _is(type_, tuple) and hasattr(type_, "_fields"):
        return list(_hints(type_).values())
    if _is(type_, msgspec.Struct):
        return [field.type for field in msgspec.structs.fields(type_)]
    return ()


def _field_parts(value: dict[str, Any], type_: Any) -> Iterator[InputPart]:
    types, required, forbids_others = _known_fields(type_)
    for name, inner_type in types.items():
        if name in value or name in required:
            yield InputPart(f".{name}", name, value.get(name, MISSING), inner_type)
    if forbids_others:
        for name in value:
            if name not in types:
                yield InputPart(f".{str(name)[:SHOWN_KEY]}", name, UNKNOWN, None)


def fields_of(type_: Any) -> dict[str, Any]:
    """Return the types of the fields of *type_* by name; empty if it has no fields."""
    return _known_fields(type_)[0]


def _known_fields(type_: Any) -> tuple[dict[str, Any], Set[str], bool]:
    """Return types by name, the required names, and whether other names are refused."""
    has_fields = _is(type_, msgspec.Struct) or typing.is_typeddict(type_)
    if has_fields or (isinstance(type_, type) and dataclasses.is_dataclass(type_)):
        return _read_fields(type_)
    return {}, frozenset(), False


@cache
def _read_fields(type_: Any) -> tuple[dict[str, Any], Set[str], bool]:
    if _is(type_, msgspec.Struct):
        fields = msgspec.structs.fields(type_)
        config = type_.__struct_config__
        types = {field.encode_name: field.type for field in fields}
        required = {field.encode_name for field in fields if field.required}
        if config.tag is not None:
            types[config.tag_field] = Any
        return types, required, config.forbid_unknown_fields
    if typing.is_typeddict(type_):
        return _hints(type_), type_.__required_keys__, False
    hints = _hints(type_)
    fields_ = [field for field in dataclasses.fields(type_) if field.init]
    no = dataclasses.MISSING
    must = {field.name for field in fields_ if field.default is field.default_factory is no}
    return {field.name: hints[field.name] for field in fields_}, must, False


def _hints(type_: Any) -> dict[str, Any]:
    return typing.get_type_hints(type_, include_extras=True)
