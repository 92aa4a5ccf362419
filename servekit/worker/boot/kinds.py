# SPDX-License-Identifier: Apache-2.0
"""Kinds of values, which tell whether a codec and an annotated type go together.

A kind is ``object``, ``text``, ``bytes``, ``numbers`` (Python's, and lists of them), ``array``
(NumPy's), ``table`` (the rows of models with a signature), or an array of a dtype and a shape
such as ``uint8[any, any, 3]``.
"""

import dataclasses
import datetime
import decimal
import enum
import re
import types
import typing
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from servekit.worker.inputs.model_leaf import is_model
from servekit.worker.inputs.type_hints import bare, is_union
from servekit.worker.inputs.type_tree import leaf_of
from servekit.worker.outputs.declared_media import media_of

__all__ = [
    "EVERY",
    "NONE",
    "RAW",
    "TABLE",
    "kinds_given",
    "kinds_of_array",
    "kinds_taken",
    "may_meet",
    "with_raw",
]

EVERY: Final = frozenset({"object", "text", "bytes", "numbers", "array"})
NONE: Final[frozenset[str]] = frozenset()
TABLE: Final = "table"  #: rows of a model with a signature
RAW: Final = "raw"  #: the elements of an array as bytes, without dtype and shape
ARRAY: Final = re.compile(r"(\w+)\[(.*)\]")
ANY: Final = "any"
NUMERIC: Final = ("numbers", "array")

BYTES: Final = (bytes, bytearray, memoryview)
OBJECTS: Final = (dict, Mapping, set, frozenset, types.NoneType, msgspec.Struct, enum.Enum)
#: types whose JSON is a string
AS_TEXT: Final = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID)
NOT_ALONE: Final = (int, float, bool, types.NoneType, list, tuple, set, frozenset)

#: the kinds of an output, by the first class that its type derives from
KIND_OF_OUTPUT: Final = (
    (BYTES, frozenset({"bytes"})),
    (str, frozenset({"text"})),
    ((int, float), frozenset({"numbers"})),
    ((*OBJECTS, *AS_TEXT), NONE),
)


# ------------------------------------------------------------ whether two kinds go together


def may_meet(given: Collection[str], wanted: Collection[str], *, casts: bool = False) -> bool:
    """Whether a value of a kind of *given* may be of one of *wanted*.

    :param casts: numbers of arrays are cast if they keep their values.
    """
    return any(_meets(one, other, casts) for one in given for other in wanted)


def _meets(one: str, other: str, casts: bool) -> bool:
    first, second = ARRAY.fullmatch(one), ARRAY.fullmatch(other)
    if first and second:
        is_dtype = first[1] == second[1] or (casts and _is_cast(first[1], second[1]))
        return is_dtype and _same_shape(_axes(first), _axes(second))
    if first or second:
        return "array" in (one, other)
    return one == other


def _is_cast(dtype: str, wanted: str) -> bool:
    are_numbers = not {dtype, wanted} & {"bool", "str"}
    return are_numbers and ("float" in wanted or "float" not in dtype)


def _axes(match: re.Match[str]) -> Sequence[str]:
    return [axis.strip() for axis in match[2].split(",") if axis.strip()]


def _same_shape(one: Sequence[str], other: Sequence[str]) -> bool:
    return len(one) == len(other) and all(
        ANY in (size, wanted) or size == wanted for size, wanted in zip(one, other, strict=True)
    )


# ------------------------------------------------------------ kinds of declared arrays


def kinds_of_array(declared: Mapping[str, Any]) -> Collection[str]:
    """Return the kinds of an entry of a signature: ``float32[any, 3]``, or ``text``."""
    if declared["dtype"] == "str":
        return NONE if declared["shape"] else {"text"}
    axes = [ANY if int(size) < 0 else str(int(size)) for size in declared["shape"]]
    return {f"{declared['dtype']}[{', '.join(axes)}]"}


def with_raw(declared: Mapping[str, Any]) -> Collection[str]:
    """Return the kinds of an array that is an input, which raw bytes may be, too."""
    is_raw = declared["dtype"] != "str" and list(declared["shape"]).count(-1) <= 1
    return {*kinds_of_array(declared), *([RAW] if is_raw else [])}


# ------------------------------------------------------------ kinds of annotated types


def kinds_taken(type_: Any) -> Collection[str]:
    """Return the kinds of decoded values that can be converted into *type_*."""
    if (leaf := leaf_of(type_)) is not None and leaf.declared is not None:
        return with_raw(leaf.declared)
    type_ = bare(type_)
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if is_union(type_):
        return NONE.union(*map(kinds_taken, arguments))
    if origin is typing.Literal:
        return {"text"} if any(isinstance(each, str) for each in arguments) else NONE
    known = origin or type_
    return _taken_by_class(known) if isinstance(known, type) else EVERY


def _taken_by_class(kind: type) -> Collection[str]:
    if issubclass(kind, enum.Enum):
        return {"text"} if any(isinstance(each.value, str) for each in kind) else NONE
    if issubclass(kind, (*BYTES, uuid.UUID)):
        return {"bytes", "text"}  # bytes are base64 in JSON
    if issubclass(kind, (str, *AS_TEXT)):
        return {"text"}
    if issubclass(kind, msgspec.Struct):
        return NONE if kind.__struct_config__.array_like else {"object"}
    if is_model(kind):
        return _taken_by_model(kind)
    if issubclass(kind, Mapping) or _has_fields(kind) or hasattr(kind, "__attrs_attrs__"):
        return {"object"}
    if kind.__module__ == "numpy":
        return {"array"}
    return NONE if issubclass(kind, (*NOT_ALONE, Sequence, Collection)) else EVERY


def _taken_by_model(kind: Any) -> Collection[str]:
    """Return the kinds of a pydantic model; a root model is made of what its root is."""
    fields = getattr(kind, "model_fields", {})
    if not (getattr(kind, "__pydantic_root_model__", False) and "root" in fields):
        return {"object"}
    inner = kinds_taken(fields["root"].annotation)
    return {*inner, "text", "bytes"} if "text" in inner else inner


def kinds_given(type_: Any) -> Collection[str]:
    """Return the kinds of the values of *type_*; all of them if the type is not known."""
    if (leaf := leaf_of(type_)) is not None and leaf.declared is not None:
        return kinds_of_array(leaf.declared)
    if media_of(type_) is not None:
        return NONE
    type_ = bare(type_)
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if is_union(type_):
        return NONE.union(*map(kinds_given, arguments))
    if origin is typing.Literal:
        return NONE.union(*(kinds_given(type(each)) for each in arguments))
    known = origin or type_
    if not isinstance(known, type):
        return EVERY
    for bases, kinds in KIND_OF_OUTPUT:
        if issubclass(known, bases):
            return kinds
    if known.__module__ == "numpy":
        return {"array"} if known.__name__ == "ndarray" else {"numbers"}
    if issubclass(known, list | tuple):
        return _kinds_of_items(known, arguments)
    return NONE if _has_fields(known) or is_model(known) else EVERY


def _has_fields(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)


def _kinds_of_items(kind: type, arguments: Sequence[Any]) -> Collection[str]:
    """Return ``numbers`` for a list or a tuple if all its elements may be numbers."""
    is_named = hasattr(kind, "_fields")
    items = typing.get_type_hints(kind).values() if is_named else arguments
    known = [kinds_given(item) for item in items if item is not ...]
    are_numbers = all(any(kind[-1] == "]" or kind in NUMERIC for kind in kinds) for kinds in known)
    return {"numbers"} if are_numbers else NONE
