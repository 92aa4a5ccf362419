# SPDX-License-Identifier: Apache-2.0
"""The fields of Structs, dataclasses, attrs classes, TypedDicts and NamedTuples, generic or not."""

import dataclasses
import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import msgspec

from servekit.worker.inputs.type_hints import QUALIFIERS, once_for_each

__all__ = [
    "Fields",
    "fields_in_order",
    "hints_of",
    "is_struct_like",
    "is_typed_dict",
    "known_fields",
]


class Fields(NamedTuple):
    """The fields of objects of one type."""

    types: Mapping[str, Any]  #: by the names that they have in an input
    required: Set[str]
    forbids_others: bool  #: names that are not known are refused


NO_FIELDS: Final = Fields({}, frozenset(), forbids_others=False)


@once_for_each
def known_fields(type_: Any) -> Fields:
    """Return the fields of *type_*; none if its values are lists, or have no fields."""
    kind = typing.get_origin(type_) or type_
    if not isinstance(kind, type):
        return NO_FIELDS
    if issubclass(kind, msgspec.Struct):
        return NO_FIELDS if kind.__struct_config__.array_like else _of_struct(type_, kind)
    if is_typed_dict(kind):
        return _of_typed_dict(type_, kind)
    if hasattr(kind, "__attrs_attrs__"):
        return _of_attrs(type_, kind)
    return _of_dataclass(type_, kind) if dataclasses.is_dataclass(kind) else NO_FIELDS


@once_for_each
def fields_in_order(type_: Any) -> Sequence[Any]:
    """Return the types of the fields of lists; empty if *type_* has no fields, or only names."""
    kind = typing.get_origin(type_) or type_
    if not isinstance(kind, type):
        return ()
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return list(hints_of(type_).values())
    if not (issubclass(kind, msgspec.Struct) and kind.__struct_config__.array_like):
        return ()
    tag = kind.__struct_config__.tag
    types = [field.type for field in msgspec.structs.fields(type_)]
    return types if tag is None else [type(tag), *types]


def is_struct_like(kind: type) -> bool:
    """Whether *kind* is a Struct, a dataclass or an attrs class."""
    is_struct = issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind)
    return is_struct or hasattr(kind, "__attrs_attrs__")


def is_typed_dict(type_: Any) -> bool:
    """Whether *type_* is a ``TypedDict`` of ``typing`` or of ``typing_extensions``."""
    return isinstance(type_, type) and issubclass(type_, dict) and hasattr(type_, "__total__")


def hints_of(type_: Any) -> dict[str, Any]:
    """Return the types of all fields by name, with what *type_* says for type variables."""
    hints = typing.get_type_hints(typing.get_origin(type_) or type_, include_extras=True)
    found: dict[str, Any] = {}
    for kind, variables in _with_bases(type_, {}):
        for name in inspect.get_annotations(kind):
            if name in hints and name not in found:
                found[name] = _filled(hints[name], variables)
    return hints | found


def _of_struct(type_: Any, kind: type[msgspec.Struct]) -> Fields:
    fields, config = msgspec.structs.fields(type_), kind.__struct_config__
    types = {field.encode_name: field.type for field in fields}
    if config.tag_field is not None:
        types[config.tag_field] = type(config.tag)
    required = {field.encode_name for field in fields if field.required}
    return Fields(types, required, config.forbid_unknown_fields)


def _of_typed_dict(type_: Any, kind: Any) -> Fields:
    types, required = {}, set(kind.__required_keys__)
    for name, hint in hints_of(type_).items():
        while (qualifier := typing.get_origin(hint)) in QUALIFIERS:
            if qualifier is typing.Required:  # the class does not see it in a quoted annotation
                required.add(name)
            elif qualifier is typing.NotRequired:
                required.discard(name)
            (hint,) = typing.get_args(hint)
        types[name] = hint
    return Fields(types, required, forbids_others=False)


def _of_dataclass(type_: Any, kind: Any) -> Fields:
    hints, no = hints_of(type_), dataclasses.MISSING
    fields = [field for field in dataclasses.fields(kind) if field.init]
    required = {field.name for field in fields if field.default is field.default_factory is no}
    types = {field.name: hints[field.name] for field in fields}
    return Fields(types, required, forbids_others=False)


def _of_attrs(type_: Any, kind: Any) -> Fields:
    from attrs import NOTHING  # the package of the class

    hints, fields = hints_of(type_), kind.__attrs_attrs__
    types = {field.name: hints[field.name] for field in fields}
    required = {field.name for field in fields if field.default is NOTHING}
    return Fields(types, required, forbids_others=False)


def _with_bases(type_: Any, outer: Mapping[Any, Any]) -> Iterator[tuple[type, Mapping[Any, Any]]]:
    """Yield a class and its bases, each with the types that its type variables stand for.

    :param outer: what those in *type_* stand for.
    """
    kind = typing.get_origin(type_) or type_
    if not isinstance(kind, type):  # ``NamedTuple`` is a function
        return
    arguments = [_filled(each, outer) for each in typing.get_args(type_)]
    parameters = getattr(kind, "__parameters__", ())
    variables = dict(zip(parameters, arguments, strict=False))
    yield kind, variables
    for base in vars(kind).get("__orig_bases__", kind.__bases__):
        yield from _with_bases(base, variables)


def _filled(hint: Any, variables: Mapping[Any, Any]) -> Any:
    """Return *hint* with types in the place of its type variables."""
    if isinstance(hint, typing.TypeVar):
        return variables.get(hint, hint)
    parameters = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    if not any(each in variables for each in parameters):
        return hint
    return hint[tuple(variables.get(each, each) for each in parameters)]
