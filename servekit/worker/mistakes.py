# SPDX-License-Identifier: Apache-2.0
"""Finds every field that is not of its type; slow, and called only when one is not."""

import dataclasses
import re
import typing
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from types import NoneType, UnionType
from typing import Any, Final

import msgspec

__all__ = ["Mistake", "mistakes", "name_mistake"]

#: path such as ``.points[3].x``, and what is wrong there
Mistake = tuple[str, str]

LOCATED: Final = re.compile(r"(?P<message>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
NAMED: Final = re.compile(
    r"Object (?P<what>missing required|contains unknown) field `(?P<field>.*)`"
)
WHAT: Final = {"missing required": "missing", "contains unknown": "unknown field"}

MOST: Final = 100  #: mistakes of one input that are told
BLOCK: Final = 1024  #: elements of a list that are looked at in one go, in C
SHOWN_KEY: Final = 80
MISSING: Final = object()
UNKNOWN: Final = object()

#: path, value, type
Part = tuple[str, Any, Any]


def mistakes(value: Any, type_: Any) -> list[Mistake]:
    """Return what keeps *value*, as decoded, from being *type_*: at most ``MOST`` mistakes."""
    return list(islice(_mistakes("", value, type_), MOST))


def name_mistake(error: Exception) -> Mistake:
    """Return where msgspec found something wrong, and what."""
    located = LOCATED.fullmatch(str(error))
    message = located["message"] if located else str(error)
    path = (located and located["path"]) or ""
    if named := NAMED.fullmatch(message):
        return f"{path}.{named['field']}", WHAT[named["what"]]
    message = message.replace("`", "")
    return path, message[:1].lower() + message[1:]


def _mistakes(path: str, value: Any, type_: Any) -> Iterator[Mistake]:
    """Yield those of the innermost parts; of the whole if no part of it is to blame."""
    if value is MISSING or value is UNKNOWN:
        yield path, "missing" if value is MISSING else "unknown field"
        return
    first = _first(value, type_)
    if first is None:
        return
    is_of_a_part = False
    for part, inner, inner_type in _parts(value, _without_none(type_)):
        for mistake in _mistakes(path + part, inner, inner_type):
            is_of_a_part = True
            yield mistake
    if not is_of_a_part:
        yield path + first[0], first[1]


def _first(value: Any, type_: Any) -> Mistake | None:
    try:
        msgspec.convert(value, type_, str_keys=True)
    except ValueError as error:  # of msgspec; or a key that is not Unicode
        return name_mistake(error)
    return None


def _without_none(type_: Any) -> Any:
    """Return the one member that ``T | None`` has besides ``None``, without annotations."""
    origin = typing.get_origin(type_)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return _without_none(typing.get_args(type_)[0])
    if origin in (typing.Union, UnionType):
        members = [each for each in typing.get_args(type_) if each is not NoneType]
        return _without_none(members[0]) if len(members) == 1 else type_
    return type_


def _parts(value: Any, type_: Any) -> Iterator[Part]:
    """Yield what *value* is made of, as far as *type_* tells the types of its parts."""
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if isinstance(value, list):
        if _is(type_, tuple) and hasattr(type_, "_fields"):
            yield from _in_order(value, list(_hints(type_).values()))
        elif origin is tuple and arguments[-1] is not ...:
            yield from _in_order(value, list(arguments))
        elif arguments and _is(origin, Sequence, Set, tuple):
            yield from _elements(value, arguments[0])
        elif _is(type_, msgspec.Struct):
            yield from _in_order(value, [field.type for field in msgspec.structs.fields(type_)])
    elif isinstance(value, dict):
        if len(arguments) == 2 and _is(origin, Mapping):
            for key, inner in value.items():
                yield f"[{str(key)[:SHOWN_KEY]}]", inner, arguments[1]
        else:
            yield from _fields(value, type_)


def _is(type_: Any, *kinds: type) -> bool:
    return isinstance(type_, type) and issubclass(type_, kinds)


def _in_order(values: list[Any], types: list[Any]) -> Iterator[Part]:
    for place, (inner, type_) in enumerate(zip(values, types, strict=False)):
        yield f"[{place}]", inner, type_


def _elements(values: list[Any], type_: Any) -> Iterator[Part]:
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        if _first(block, list[type_]) is not None:
            for place, inner in enumerate(block, start):
                yield f"[{place}]", inner, type_


def _fields(value: dict[str, Any], type_: Any) -> Iterator[Part]:
    types, required, refuses_others = _known_fields(type_)
    for name, inner_type in types.items():
        if name in value or name in required:
            yield f".{name}", value.get(name, MISSING), inner_type
    if refuses_others:
        for name in value:
            if name not in types:
                yield f".{str(name)[:SHOWN_KEY]}", UNKNOWN, None


def _known_fields(type_: Any) -> tuple[dict[str, Any], Set[str], bool]:
    """Return types by name, the names that must be there, and whether no other may."""
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
    if dataclasses.is_dataclass(type_):
        hints = _hints(type_)
        fields_ = [field for field in dataclasses.fields(type_) if field.init]
        must = {field.name for field in fields_ if _is_required(field)}
        return {field.name: hints[field.name] for field in fields_}, must, False
    return {}, frozenset(), False


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


def _hints(type_: Any) -> dict[str, Any]:
    return typing.get_type_hints(type_, include_extras=True)
