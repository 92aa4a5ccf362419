# SPDX-License-Identifier: Apache-2.0
"""Objects of the classes that a model defines, between its own stages: by the name of the class.

Dataclasses, Structs, named tuples and enumerations. The module of the class is imported by the
stage that reads them, so it must be a module that both stages can import.
"""

import dataclasses
import enum
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from servekit.builtin.services import without_bytecode
from servekit.types.values import name_of

__all__ = ["ClassKind", "find_class", "is_importable", "kind_of_class", "read_object"]


#: types whose values hold more than fields
HOLDERS: Final = (dict, list, tuple, set, frozenset, str, bytes, bytearray, int, float)


class ClassKind(NamedTuple):
    """One kind of classes."""

    letter: str
    holds: Callable[[type], bool]
    write: Callable[[Any], Any]
    read: Callable[[Any, Any], Any]  #: a class, and what ``write`` returned


def _fields(value: Any) -> dict[str, Any]:
    names = map(attrgetter("name"), dataclasses.fields(value))
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _made(kind: Any, fields: Mapping[str, Any]) -> Any:
    """Return a dataclass as it was: neither ``__init__`` nor ``__post_init__`` runs again."""
    value = kind.__new__(kind)
    for name, each in fields.items():
        object.__setattr__(value, name, each)
    return value


def _is_fields(kind: type) -> bool:
    """Whether the fields are all that a value of *kind* holds: some dataclasses are mappings."""
    return dataclasses.is_dataclass(kind) and not issubclass(kind, HOLDERS)


def _write_member(member: enum.Enum) -> list[Any]:
    """Return the name of *member*, or the value of a combination of flags, which has no name."""
    has_name = member.name in type(member).__members__
    return [member.name] if has_name else [None, member.value]


def _read_member(kind: Any, written: list[Any]) -> Any:
    name, *value = written
    return kind[name] if name is not None else kind(*value)


KINDS: Final = (
    ClassKind("E", lambda kind: issubclass(kind, enum.Enum), _write_member, _read_member),
    ClassKind(
        "S",
        lambda kind: issubclass(kind, msgspec.Struct),
        lambda value: {name: getattr(value, name) for name in value.__struct_fields__},
        lambda kind, fields: kind(**fields),
    ),
    ClassKind("D", _is_fields, _fields, _made),
    ClassKind(
        "N",
        lambda kind: issubclass(kind, tuple) and hasattr(kind, "_fields"),
        list,
        lambda kind, values: kind._make(values),
    ),
)
BY_LETTER: Final = {kind.letter: kind for kind in KINDS}


def kind_of_class(kind: type) -> ClassKind | None:
    """Return the kind that the class *kind* is of; ``None`` if it is of none of them."""
    return next((each for each in KINDS if each.holds(kind)), None)


def read_object(letter: str, name: str, written: Any) -> Any:
    """Return the object of the class *name* for which *written* stands.

    :raises LookupError: there is no such class in this process, or it is of another kind.
    """
    kind = find_class(name)
    if not BY_LETTER[letter].holds(kind):
        raise LookupError(f"{name} is another kind of class here")
    return BY_LETTER[letter].read(kind, written)


@cache
def find_class(name: str) -> type:
    """Return the class *name*, ``module:Class``, whose module is imported if need be.

    :raises LookupError: there is none.
    """
    module, _, path = name.partition(":")
    try:
        with without_bytecode():
            found: Any = sys.modules.get(module) or import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"{name} cannot be imported: {error}") from None
    if not isinstance(found, type):
        raise LookupError(f"{name} is not a class")  # noqa: TRY004 - of a name
    return found


def is_importable(kind: type) -> bool:
    """Whether another process can find *kind* by its name."""
    try:
        return kind.__module__ != "__main__" and find_class(name_of(kind)) is kind
    except LookupError:
        return False
