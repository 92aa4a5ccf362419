# SPDX-License-Identifier: Apache-2.0
"""How the parts of a form are read, by the annotated type of an input or by a signature."""

import datetime
import decimal
import enum
import ipaddress
import pathlib
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from servekit.errors import BodyMalformed
from servekit.types import TextPart
from servekit.worker.codecs.json import decode_json
from servekit.worker.inputs.conversion import convert
from servekit.worker.inputs.leaves import NotOfType
from servekit.worker.inputs.media_leaf import MediaLeaf
from servekit.worker.inputs.model_leaf import is_model, model_fields
from servekit.worker.inputs.type_hints import is_union, members, peeled
from servekit.worker.inputs.type_tree import (
    element_type,
    entry_type,
    fields_of,
    leaf_of,
    without_none,
)

__all__ = ["NO_RULES", "FormRules", "PartRule", "json_or_text", "signed_rules", "typed_rules"]

#: types whose JSON is a string
AS_TEXT: Final = (
    *(str, bytes, bytearray, datetime.date, datetime.time, datetime.timedelta),
    *(decimal.Decimal, uuid.UUID, pathlib.PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address),
)


class PartRule(NamedTuple):
    """How the parts of one name are read."""

    read: Callable[[str], Any]  #: for a part without a content type
    is_typed: bool = True  #: then ``text/plain`` says no more than no content type
    is_file: bool = False  #: a ``File``, whatever its content type
    is_text: bool = False  #: ``Text``: taken unchanged, whatever its content type
    is_list: bool = False  #: there may be several; one may also hold the whole list in JSON
    is_array: bool = False  #: one may also hold the whole array, as bytes or by a codec of arrays


def json_or_text(text: str) -> Any:
    """Return the value of a JSON text, or else the text."""
    try:
        return decode_json(text.encode())
    except BodyMalformed:
        return text


def _as_is(text: str) -> str:
    return text


def _unquoted(text: str) -> str:
    """Return the value of a JSON string; anything else, such as a date, unchanged."""
    value = json_or_text(text)
    return value if isinstance(value, str) else text


UNTYPED: Final = PartRule(json_or_text, is_typed=False)


class FormRules(NamedTuple):
    """How a form, or a file in its place, becomes an input."""

    is_file: Callable[[str], bool] = lambda _media_type: False  #: a body of it is a whole file
    parts: Mapping[str, PartRule] = {}  #: by name
    others: PartRule = UNTYPED  #: of parts of other names
    alone: PartRule | None = None  #: the parts of one name are the whole input

    def rule(self, name: str) -> PartRule:
        """Return how the parts called *name* are read."""
        return self.parts.get(name, self.others)


NO_RULES: Final = FormRules()


def typed_rules(type_: Any) -> FormRules:
    """Return the rules of inputs of *type_*."""
    type_ = without_none(type_)
    leaf = leaf_of(type_)
    if isinstance(leaf, MediaLeaf):
        return FormRules(leaf.takes, alone=_rule(type_))
    if _is_file(element_type(type_)):
        return FormRules(alone=_rule(type_))
    if (inner := entry_type(type_)) is not None:
        return FormRules(others=_rule(inner))
    fields: dict[str, Any] = {}
    for member in members(type_):
        for name, field in (fields_of(member) or model_fields(member)).items():
            fields[name] = field if fields.get(name, field) == field else Any
    return FormRules(parts={name: _rule(each) for name, each in fields.items()})


def signed_rules(inputs: Sequence[Mapping[str, Any]]) -> FormRules:
    """Return the rules of the *inputs* of a signature; text is never read as JSON."""
    parts = {}
    for each in inputs:
        axes = len(each["shape"])
        read = _as_is if each["dtype"] == "str" and axes < 2 else json_or_text
        parts[str(each["name"])] = PartRule(read, is_list=axes == 1, is_array=True)
    return FormRules(parts=parts)


def _rule(type_: Any) -> PartRule:
    """Return how parts for a field of *type_* are read."""
    element = element_type(without_none(type_))
    single = type_ if element is None else element
    is_text = _is_marked(single)
    read = _as_is if is_text else _reader(single)
    return PartRule(read, True, _is_file(single), is_text, element is not None)


def _reader(type_: Any) -> Callable[[str], Any]:
    """Return what makes of the text of a part what *type_* is converted from."""
    kinds = members(type_)
    if kinds and all(kind in (str, bytes) for kind in kinds):
        return _as_is
    texts = [kind for kind in kinds if _is_text(kind)]
    if texts and texts == kinds:
        return _unquoted
    if texts and not any(map(is_model, kinds)):
        return lambda text: _fitting(text, type_)
    return json_or_text


def _is_text(kind: Any) -> bool:
    """Whether the JSON of a *kind* is always a string."""
    if typing.get_origin(kind) is typing.Literal:
        return all(isinstance(each, str) for each in typing.get_args(kind))
    if not isinstance(kind, type):
        return False
    if issubclass(kind, enum.Enum):
        return all(isinstance(each.value, str) for each in kind)
    is_pydantics = kind.__module__.partition(".")[0] == "pydantic" and not is_model(kind)
    return issubclass(kind, AS_TEXT) or is_pydantics


def _fitting(text: str, type_: Any) -> Any:
    """Return the value of a JSON text if it fits *type_*, else the text."""
    value = json_or_text(text)
    try:
        convert(value, type_)
    except (NotOfType, msgspec.ValidationError):
        return text
    return value


def _is_file(type_: Any) -> bool:
    return isinstance(leaf_of(without_none(type_)), MediaLeaf)


def _is_marked(type_: Any) -> bool:
    """Whether *type_*, or a member of it, is ``Text``."""
    if any(isinstance(each, TextPart) for each in getattr(type_, "__metadata__", ())):
        return True
    if (inner := peeled(type_)) is not type_:
        return _is_marked(inner)
    return is_union(type_) and any(map(_is_marked, typing.get_args(type_)))
