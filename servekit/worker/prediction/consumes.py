# SPDX-License-Identifier: Apache-2.0
"""Which media types a service takes: all that can be made into one of its inputs, and no others."""

import dataclasses
import datetime
import decimal
import enum
import typing
import uuid
from collections.abc import Collection, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Final

import msgspec

from servekit.service.base import Service
from servekit.worker.codecs.table import CodecTable
from servekit.worker.inputs.form_rules import typed_rules
from servekit.worker.inputs.forms import FORM
from servekit.worker.inputs.kinds import EVERY, NONE, array_kind, may_meet
from servekit.worker.inputs.leaves import leaf_of
from servekit.worker.inputs.media_leaf import MediaLeaf
from servekit.worker.inputs.model_leaf import is_model
from servekit.worker.inputs.type_hints import bare
from servekit.worker.inputs.type_tree import without_none

__all__ = ["consumes", "kinds_taken"]

JSON: Final = "application/json"
#: what a body of a built-in media type is made into; all others are structured, and hold anything
READS: Final[Mapping[str, Collection[str]]] = {
    "text/plain": {"text"},
    "application/octet-stream": {"bytes"},
    "image/*": {"bytes"},
    "audio/*": {"bytes"},
    "video/*": {"bytes"},
    "application/x-npy": {"array"},
    FORM: {"object"},
}
RAW: Final = "application/octet-stream"
BYTES: Final = (bytes, bytearray, memoryview)
#: read from the texts that stand for them in JSON
AS_TEXT: Final = (
    str,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)
NOT_ALONE: Final = (int, float, bool, NoneType, list, tuple, set, frozenset)


def consumes(
    service: Service, signature: Mapping[str, Any] | None, input_type: Any, table: CodecTable
) -> list[str]:
    """Return the media types of *table*, and forms, of which an input of *service* can be made."""
    every = [*table.media_types, FORM]
    if type(service).preprocess is not Service.preprocess:
        return every
    leaf = leaf_of(without_none(input_type))
    if signature is None and isinstance(leaf, MediaLeaf):
        structured = [name for name in every if name not in READS and table.is_builtin(name)]
        taken = [name for name in every if name in (*structured, FORM) or leaf.takes(name)]
        return [*taken, "*/*"] if leaf.takes("") else taken
    kinds = kinds_taken(input_type) if signature is None else _kinds_of_inputs(signature["inputs"])
    is_of_files = signature is None and typed_rules(input_type).alone is not None
    return [
        name for name in every if _is_taken(name, kinds, table) or (name == FORM and is_of_files)
    ]


def _is_taken(name: str, kinds: Collection[str], table: CodecTable) -> bool:
    if name != FORM and not table.is_builtin(name):
        reads = table.reads(name)
        return reads is None or may_meet(reads, kinds, casts=True)
    if name == RAW and "raw" in kinds:
        return True
    if name == JSON:
        return kinds != {"array"}  # NumPy's own class, which no JSON becomes
    return name not in READS or may_meet(READS[name], kinds)


def _kinds_of_inputs(inputs: Sequence[Mapping[str, Any]]) -> Collection[str]:
    alone = _kinds_of_array(inputs[0]) if len(inputs) == 1 else NONE
    return {"object", *alone}


def _kinds_of_array(declared: Mapping[str, Any]) -> Collection[str]:
    if declared["dtype"] == "str":
        return NONE if declared["shape"] else {"text"}
    can_be_raw = list(declared["shape"]).count(-1) <= 1
    return {array_kind(declared), *(["raw"] if can_be_raw else [])}


def kinds_taken(type_: Any) -> Collection[str]:
    """Return the kinds of values, as decoded, of which a *type_* can be made."""
    leaf = leaf_of(type_)
    if (declared := getattr(leaf, "declared", None)) is not None:
        return _kinds_of_array(declared)
    type_ = bare(type_)
    origin = typing.get_origin(type_)
    if origin in (typing.Union, UnionType):
        return NONE.union(*map(kinds_taken, typing.get_args(type_)))
    if origin is typing.Literal:
        return {"text"} if any(isinstance(each, str) for each in typing.get_args(type_)) else NONE
    known = origin or type_
    return _kinds_of_class(known) if isinstance(known, type) else EVERY


def _kinds_of_class(kind: type) -> Collection[str]:
    if issubclass(kind, enum.Enum):
        return {"text"} if any(isinstance(each.value, str) for each in kind) else NONE
    if issubclass(kind, BYTES):
        return {"bytes", "text"}  # in JSON they are base64
    if issubclass(kind, uuid.UUID):
        return {"text", "bytes"}
    if issubclass(kind, AS_TEXT):
        return {"text"}
    if issubclass(kind, msgspec.Struct):
        return NONE if kind.__struct_config__.array_like else {"object"}
    if is_model(kind):
        return _kinds_of_model(kind)
    is_object = issubclass(kind, Mapping) or typing.is_typeddict(kind)
    if is_object or dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__"):
        return {"object"}
    if kind.__module__ == "numpy":
        return {"array"}
    return NONE if issubclass(kind, (*NOT_ALONE, Sequence, Collection)) else EVERY


def _kinds_of_model(kind: Any) -> Collection[str]:
    """Return the kinds of a model of pydantic's: one around a value is made of that."""
    fields = getattr(kind, "model_fields", {})
    if not (getattr(kind, "__pydantic_root_model__", False) and "root" in fields):
        return {"object"}
    inner = kinds_taken(fields["root"].annotation)
    return {*inner, "text", "bytes"} if "text" in inner else inner
