# SPDX-License-Identifier: Apache-2.0
"""Outputs with files in the place of their media: what JSON and msgpack can hold."""

import copy
import typing
from collections.abc import Sequence
from typing import Any

import msgspec

from servekit.errors import ResultNotEncodable
from servekit.types import File
from servekit.worker.inputs.type_fields import hints_of, is_struct_like, is_typed_dict
from servekit.worker.inputs.type_hints import bare, is_union, once_for_each, shown_type
from servekit.worker.inputs.type_tree import (
    MISSING,
    UNKNOWN,
    element_type,
    parts,
    types_within,
)
from servekit.worker.outputs.declared_media import media_of

__all__ = ["NotOfItsType", "holds_media", "with_files"]

LISTS = (list, tuple, set, frozenset)


class NotOfItsType(ResultNotEncodable):
    """An output is something else than its annotation says: the service is at fault."""

    def __init__(self, value: Any, type_: Any) -> None:
        """Name the class of *value* and *type_*, which is annotated."""
        kind, shown = type(value).__name__, shown_type(bare(type_))
        super().__init__(f"output: {kind} where the annotation says {shown}")


@once_for_each
def holds_media(type_: Any) -> bool:
    """Whether *type_* is a picture, a sound or a file, or contains one."""
    return any(media_of(each) is not None for each in types_within(type_))


def with_files(value: Any, type_: Any) -> Any:
    """Return *value*, an output annotated as *type_*, with a ``File`` for each picture and sound.

    What holds one is copied. ``None`` is left out everywhere, and bytes can stand for a file.

    :raises ValueError: a picture or a sound cannot be written as it is declared.
    :raises NotOfItsType: something else is in its place.
    """
    if value is None or not holds_media(type_):
        return value
    if (media := media_of(type_)) is not None:
        if isinstance(value, media.type):
            return media.file_of(value)
        if media.type is File and isinstance(value, bytes | bytearray | memoryview):
            return value
        raise NotOfItsType(value, type_)
    type_ = bare(type_)
    if is_union(type_):
        return with_files(value, _member(value, type_))
    if isinstance(value, LISTS):
        return _list(value, type_)
    if isinstance(value, dict):
        return _mapping(value, type_)
    if is_struct_like(type(value)):
        return _object(value, type_)
    return value


def _member(value: Any, union: Any) -> Any:
    """Return the type of *union* that *value* is of; ``Any`` without such a type."""
    for member in typing.get_args(union):
        media, type_ = media_of(member), bare(member)
        kind = media.type if media is not None else typing.get_origin(type_) or type_
        kind = dict if is_typed_dict(kind) else kind
        if isinstance(kind, type) and isinstance(value, kind):
            return member
    return Any


def _list(value: Any, type_: Any) -> list[Any]:
    if (inner := element_type(type_)) is not None:
        return [with_files(each, inner) for each in value]
    made = [*value]
    for part in parts(made, type_):
        made[part.key] = with_files(part.value, part.type)
    return made


def _mapping(value: dict[Any, Any], type_: Any) -> dict[Any, Any]:
    made = value.copy()
    for part in parts(value, type_):
        if part.value is not MISSING and part.value is not UNKNOWN:
            made[part.key] = with_files(part.value, part.type)
    return made


def _object(value: Any, type_: Any) -> Any:
    kind: Any = type(value)
    made = copy.copy(value)
    is_struct = isinstance(made, msgspec.Struct)
    for name, inner in _fields_with_media(type_ if typing.get_origin(type_) is kind else kind):
        if (held := getattr(value, name, None)) is not None:
            set_field = msgspec.structs.force_setattr if is_struct else object.__setattr__
            set_field(made, name, with_files(held, inner))
    return made


@once_for_each
def _fields_with_media(kind: Any) -> Sequence[tuple[str, Any]]:
    """Return names and types of the fields of *kind* that may hold media."""
    plain = typing.get_origin(kind) or kind
    if issubclass(plain, msgspec.Struct):
        types = {each.name: each.type for each in msgspec.structs.fields(kind)}
    else:
        types = hints_of(kind)
    return [(name, inner) for name, inner in types.items() if holds_media(inner)]
