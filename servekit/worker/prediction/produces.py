# SPDX-License-Identifier: Apache-2.0
"""Which media types a service may answer in: for its description, and for every ``Accept``."""

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from servekit.service.base import Service
from servekit.worker.codecs.table import CodecTable
from servekit.worker.inputs.kinds import EVERY, NONE, array_kind, may_meet
from servekit.worker.inputs.leaves import leaf_of
from servekit.worker.inputs.model_leaf import is_model
from servekit.worker.inputs.type_hints import bare

__all__ = ["OCTET_STREAM", "produces"]

OCTET_STREAM: Final = "application/octet-stream"
#: built-in media types that hold some kinds of output only; the others hold nearly all
WRITES: Final[Mapping[str, Collection[str]]] = {
    OCTET_STREAM: {"bytes"},
    "text/plain": {"text"},
    "application/x-npy": {"array", "numbers"},
}
#: what bytes go out as when a client asks for it
OF_BYTES: Final = ("image/*", "audio/*", "video/*")

#: the first that an annotated type derives from decides
KIND_OF_TYPE: Final = (
    ((bytes, bytearray, memoryview), frozenset({"bytes"})),
    (str, frozenset({"text"})),
    ((int, float), frozenset({"numbers"})),
    ((dict, Mapping, set, frozenset, types.NoneType, msgspec.Struct, enum.Enum), NONE),
    ((datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID), NONE),
)


def produces(
    service: Service, signature: Mapping[str, Any] | None, output_type: Any, table: CodecTable
) -> list[str]:
    """Return the media types of *table* that can hold what *service* says that it gives.

    Ranges are what bytes go out as for clients that ask for it.

    :param output_type: of its ``predict``; ``Any`` is unknown.
    """
    if type(service).postprocess is not Service.postprocess:
        kinds: Collection[str] = EVERY
    elif signature is not None:
        kinds = _kinds_of_tensors(signature["outputs"])
    else:
        kinds = kinds_given(output_type)
    written = [name for name in table.written if _can_hold(name, kinds, table)]
    return [*written, *(OF_BYTES if "bytes" in kinds else ())]


def _can_hold(name: str, kinds: Collection[str], table: CodecTable) -> bool:
    if not table.is_builtin(name):
        writes = table.writes(name)
        return writes is None or may_meet(kinds, writes)
    return name not in WRITES or may_meet(kinds, WRITES[name])


def _kinds_of_tensors(outputs: Sequence[Mapping[str, Any]]) -> Collection[str]:
    if not outputs:
        return EVERY  # nothing is said
    if len(outputs) > 1:
        return NONE  # an object of them
    return _kinds_of_tensor(outputs[0])


def _kinds_of_tensor(declared: Mapping[str, Any]) -> Collection[str]:
    if declared["dtype"] == "str":
        return NONE if declared["shape"] else {"text"}
    return {array_kind(declared)}


def kinds_given(type_: Any) -> Collection[str]:
    """Return what values of *type_* may be; everything if it is a type we do not know."""
    if (declared := getattr(leaf_of(type_), "declared", None)) is not None:
        return _kinds_of_tensor(declared)
    type_ = bare(type_)
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin in (typing.Union, types.UnionType):
        return NONE.union(*map(kinds_given, arguments))
    if origin is typing.Literal:
        return NONE.union(*(kinds_given(type(each)) for each in arguments))
    known = origin or type_
    if not isinstance(known, type):
        return EVERY
    for bases, kinds in KIND_OF_TYPE:
        if issubclass(known, bases):
            return kinds
    if known.__module__ == "numpy":
        return {"array"} if known.__name__ == "ndarray" else {"numbers"}
    if issubclass(known, list | tuple):
        return _kinds_of_items(known, arguments)
    is_object = dataclasses.is_dataclass(known) or typing.is_typeddict(known) or is_model(known)
    return NONE if is_object else EVERY


def _kinds_of_items(kind: type, arguments: Sequence[Any]) -> Collection[str]:
    """Return what a list or a tuple may be: numbers, if all that is in it may be numbers."""
    is_named = hasattr(kind, "_fields")
    items = typing.get_type_hints(kind).values() if is_named else arguments
    known = [kinds_given(item) for item in items if item is not ...]
    are_numbers = all(any(map(_is_numeric, kinds)) for kinds in known)
    return {"numbers"} if are_numbers else NONE


def _is_numeric(kind: str) -> bool:
    return kind in ("numbers", "array") or kind.endswith("]")
