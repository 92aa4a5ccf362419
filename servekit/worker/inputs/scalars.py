# SPDX-License-Identifier: Apache-2.0
"""Which types are written as a text: those whose part of a form is the text itself."""

import datetime
import decimal
import enum
import ipaddress
import pathlib
import typing
import uuid
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Final

from servekit.worker.inputs.model_leaf import is_model

__all__ = ["are_texts", "members"]

AS_TEXT: Final = (
    *(str, bytes, bytearray, datetime.date, datetime.time, datetime.timedelta),
    *(decimal.Decimal, uuid.UUID, pathlib.PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address),
)
AROUND: Final = (typing.Annotated, typing.Required, typing.NotRequired)


def members(type_: Any) -> list[Any]:
    """Return what *type_* may be, without ``None``, annotations and names for it."""
    origin = typing.get_origin(type_)
    if origin in AROUND:
        return members(typing.get_args(type_)[0])
    if origin in (typing.Union, UnionType):
        return [kind for each in typing.get_args(type_) for kind in members(each)]
    if isinstance(type_, typing.NewType):
        return members(type_.__supertype__)
    if hasattr(type_, "__value__"):  # type X = str
        return members(type_.__value__)
    return [] if type_ in (None, NoneType) else [type_]


def are_texts(kinds: Sequence[Any]) -> bool:
    """Whether there are *kinds* and all of them are written as texts."""
    return bool(kinds) and all(map(_is_text, kinds))


def _is_text(kind: Any) -> bool:
    if typing.get_origin(kind) is typing.Literal:
        return all(isinstance(each, str) for each in typing.get_args(kind))
    if not isinstance(kind, type):
        return False
    if issubclass(kind, enum.Enum):
        return all(isinstance(each.value, str) for each in kind)
    is_pydantics = kind.__module__.partition(".")[0] == "pydantic" and not is_model(kind)
    return issubclass(kind, AS_TEXT) or is_pydantics
