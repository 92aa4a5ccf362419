# SPDX-License-Identifier: Apache-2.0
"""Writes values for the next step as msgpack, with extensions for what msgpack does not have."""

import enum
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.msgpack import Ext

from servekit.types.values import ValueType, name_of, registered
from servekit.worker.codecs.msgpack import write
from servekit.worker.codecs.subclasses import base_value
from servekit.worker.codecs.value_classes import ClassKind, is_importable, kind_of_class
from servekit.worker.codecs.value_types import find_type

__all__ = [
    "CLASS",
    "INTEGER",
    "MAPPING",
    "OBJECT",
    "PICKLED",
    "TEXT",
    "TIME",
    "TUPLE",
    "TUPLES",
    "Pickles",
    "ValueWriter",
]

CLASS: Final = 67  #: kind and name of a class of the model, and the fields of the object
INTEGER: Final = 73  #: more than 64 bits: little-endian, signed
MAPPING: Final = 77  #: with other keys than numbers and strings: a list of pairs
OBJECT: Final = 79  #: the name of a type, and a representation of the value
PICKLED: Final = 80
TEXT: Final = 83  #: with lone surrogates
TIME: Final = 84  #: with nanoseconds: the payload of msgpack's own extension
TUPLE: Final = 85  #: a list
TUPLES: Final = 86  #: a list of lists: a list of tuples

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
MAX_KNOWN: Final = 1024  #: types that are remembered
PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
#: types of which some values are too large for msgpack, or not Unicode
DOUBTFUL: Final = frozenset({int, str})
#: types that msgspec writes, but not their subclasses
NATIVE: Final = frozenset({bytearray, memoryview})

BASES: Final = (int, float, str, bytes, bytearray)

CONTAINERS: Final = frozenset({list, dict})
VALUES_OF: Final = dict.values
DEEPEST: Final = 32  #: for one that is nested deeper, or contains itself, each part is looked at

MANY: Final = 4096  #: parts at one depth, from which on each is looked at once

#: a value to one that msgspec can write
Write = Callable[[Any], Any]


class Pickles(NamedTuple):
    """How objects are pickled, where the manifest allows it."""

    write: Callable[[Any], bytes]
    read: Callable[[memoryview], Any]


class ValueWriter(dict[type, Write]):
    """Types to what returns their values with extensions; made when a type first occurs.

    A list or a mapping that holds nothing special is left to msgspec.
    """

    def __init__(self, *, has_classes: bool, is_careful: bool = False) -> None:
        """Write values.

        :param has_classes: for a stage of the same model, which has the same classes.
        :param is_careful: integers may have more than 64 bits, and strings may hold surrogates.
        """
        super().__init__()
        self._has_classes, self._is_careful = has_classes, is_careful
        self._plain = PLAIN - DOUBTFUL if is_careful else PLAIN
        self._encode = msgspec.msgpack.Encoder(enc_hook=self._extended).encode
        self.pickles: Pickles | None = None
        self._begin()

    def _begin(self) -> None:
        self.update(dict.fromkeys(PLAIN, _same))
        self.update({list: self._list, tuple: self._tuple, dict: self._mapping})
        if self._is_careful:
            self.update({int: _integer, str: _text})

    def encode(self, value: Any) -> bytes:
        """Return *value* as bytes. Raises what msgspec raises, and ``TypeError``."""
        return self._encode(value if self._is_simple(value) else self._extended(value))

    def _is_simple(self, value: Any) -> bool:
        """Whether *value* is lists and mappings of what msgpack has; one step for each depth."""
        level = [value]
        for depth in range(DEEPEST):
            kinds = set(map(type, level)) - self._plain
            if not kinds <= CONTAINERS:
                return False
            mappings = [each for each in level if type(each) is dict] if dict in kinds else []
            if not self._plain.issuperset(map(type, chain.from_iterable(mappings))):
                return False
            lists = [each for each in level if type(each) is list] if list in kinds else []
            if depth and len(level) > MANY:  # one that contains itself doubles with each step
                lists, mappings = _different(lists), _different(mappings)
            level = [*chain.from_iterable(lists), *chain.from_iterable(map(VALUES_OF, mappings))]
            if not level:
                return True
        return False

    def _extended(self, value: Any) -> Any:
        return self[type(value)](value)

    def __missing__(self, kind: type) -> Write:
        if len(self) >= MAX_KNOWN:
            self.clear()
            self._begin()
        self[kind] = found = self._find(kind)
        return found

    def _find(self, kind: type) -> Write:
        classes = kind_of_class(kind) if kind not in registered else None
        if classes is not None:
            return self._find_of_class(kind, classes)
        if kind is _fine_time():
            return _time
        if (found := find_type(kind)) is not None:
            written = partial(self._object, *found)
            return partial(_unless_utc, written) if issubclass(kind, datetime) else written
        for base in (list, tuple, dict):
            if issubclass(kind, base):
                return self[base]
        if kind in NATIVE:
            return _same
        return self._based if issubclass(kind, BASES) else self._other

    def _find_of_class(self, kind: type, classes: ClassKind) -> Write:
        if self._has_classes and is_importable(kind):
            return partial(self._member, classes, name_of(kind))
        if issubclass(kind, tuple):
            return self._tuple
        if issubclass(kind, enum.Enum):
            return lambda member: self._extended(member.value)
        return partial(self._fields, classes) if self._is_careful else _same

    # ------------------------------------------------------------ one kind each

    def _list(self, value: list[Any]) -> Any:
        kinds = set(map(type, value))
        if self._plain.issuperset(kinds):
            return value
        if kinds == {tuple} and self._plain.issuperset(map(type, chain.from_iterable(value))):
            return Ext(TUPLES, self._encode(value))
        return [self[type(each)](each) for each in value]

    def _tuple(self, value: tuple[Any, ...]) -> Ext:
        return Ext(TUPLE, self._encode([self[type(each)](each) for each in value]))

    def _mapping(self, value: dict[Any, Any]) -> Any:
        if not self._plain.issuperset(map(type, value)):
            pairs = [[self._extended(key), self._extended(each)] for key, each in value.items()]
            return Ext(MAPPING, self._encode(pairs))
        if self._plain.issuperset(map(type, value.values())):
            return value
        return {key: self[type(each)](each) for key, each in value.items()}

    def _object(self, name: str, found: ValueType, value: Any) -> Ext:
        return Ext(OBJECT, self._encode([name, self._extended(found.write(value))]))

    def _member(self, classes: ClassKind, name: str, value: Any) -> Ext:
        written = self._extended(classes.write(value))
        return Ext(CLASS, self._encode([classes.letter, name, written]))

    def _fields(self, classes: ClassKind, value: Any) -> Any:
        """Return an object as the mapping or the list that msgspec would make of it."""
        fields = classes.write(value)
        if isinstance(value, msgspec.Struct):
            if value.__struct_config__.array_like:
                return self._list([*fields.values()])
            fields = dict(zip(value.__struct_encode_fields__, fields.values(), strict=True))
        return self._mapping(fields)

    def _based(self, value: Any) -> Any:
        return self._extended(base_value(value))

    def _other(self, value: Any) -> Any:
        try:
            written = write(value)
        except TypeError:
            self.pop(type(value), None)  # it may be registered later
            if self.pickles is None:
                raise TypeError(self._no_way(value)) from None
            return Ext(PICKLED, self.pickles.write(value))
        return written if type(written) is Ext else self._extended(written)

    def _no_way(self, value: Any) -> str:
        """Return that *value* cannot travel, and what the author can do."""
        named = f"a {type(value).__name__} cannot travel between processes"
        if not self._has_classes:
            return f"{named}; return an array, a dataclass, or what JSON has"
        return (
            f"{named}; return an array, a dataclass or what JSON has, register its type with "
            "servekit.types.register_value_type, colocate the stages, or set pickle in model.toml"
        )


def _different(values: list[Any]) -> list[Any]:
    """Return *values* with each object once."""
    return [*{id(each): each for each in values}.values()]


def _same(value: Any) -> Any:
    return value


def _integer(value: int) -> Any:
    if MIN_INTEGER <= value <= MAX_INTEGER:
        return value
    return Ext(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _text(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        return Ext(TEXT, value.encode("utf-8", "surrogatepass"))
    return value


def _unless_utc(write: Write, value: datetime) -> Any:
    """Return *value* itself if it is a moment in UTC, which msgpack has."""
    return value if value.tzinfo is UTC and not value.fold else write(value)


def _time(value: Any) -> Ext:
    return Ext(TIME, value.payload())


def _fine_time() -> type | None:
    timestamps = sys.modules.get("servekit.worker.codecs.timestamps")
    return timestamps.FineTime if timestamps is not None else None
