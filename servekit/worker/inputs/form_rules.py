# SPDX-License-Identifier: Apache-2.0
"""What an annotated type, or a signature, wants of a body or of the parts of a form."""

import typing
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any, Final, NamedTuple

import msgspec

from servekit.errors import BodyMalformed
from servekit.types import TextPart
from servekit.worker.codecs.json import decode_json
from servekit.worker.inputs.conversion import convert
from servekit.worker.inputs.leaves import NotOfType, leaf_of
from servekit.worker.inputs.media_leaf import MediaLeaf
from servekit.worker.inputs.model_leaf import is_model, model_fields
from servekit.worker.inputs.scalars import are_texts, members
from servekit.worker.inputs.type_tree import element_type, fields_of, types_within, without_none

__all__ = [
    "NO_RULES",
    "FormRules",
    "PartRule",
    "json_or_text",
    "prepare_readers",
    "signed_rules",
    "typed_rules",
]


class PartRule(NamedTuple):
    """How the parts of one name are read."""

    read: Callable[[str], Any]  #: of a part that does not say its type
    is_typed: bool = True  #: so a part of ``text/plain`` says no more than one without a type
    is_file: bool = False  #: a ``File``, whatever it says that it is
    is_text: bool = False  #: ``Text``: as it is, whatever it says that it is
    is_list: bool = False  #: there may be several; one may also hold the whole list in JSON
    is_array: bool = False  #: one may also hold the whole array, as bytes or by a codec of arrays


def json_or_text(text: str) -> Any:
    """Return the value of a JSON text, or else the text."""
    try:
        return decode_json(text.encode())
    except BodyMalformed:
        return text


def as_it_is(text: str) -> str:
    """Return *text*."""
    return text


def unquoted(text: str) -> str:
    """Return a text of JSON, or else *text* as it is: a date, a number of any digits."""
    value = json_or_text(text)
    return value if isinstance(value, str) else text


UNTYPED: Final = PartRule(json_or_text, is_typed=False)


def _never(_media_type: str) -> bool:
    return False


class FormRules(NamedTuple):
    """What an input is made of."""

    is_file: Callable[[str], bool] = _never  #: whether a whole body of this media type is a file
    parts: Mapping[str, PartRule] = {}  #: by name
    others: PartRule = UNTYPED  #: of parts of other names
    alone: PartRule | None = None  #: the parts of one name are all of the input

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
    if typing.get_origin(type_) is dict:
        return FormRules(others=_rule(typing.get_args(type_)[1]))
    fields: dict[str, Any] = {}
    for member in members(type_):
        for name, field in (fields_of(member) or model_fields(member)).items():
            fields[name] = field if fields.get(name, field) == field else Any
    return FormRules(parts={name: _rule(each) for name, each in fields.items()})


def signed_rules(inputs: Sequence[Mapping[str, Any]]) -> FormRules:
    """Return the rules of the *inputs* of a signature: texts are never JSON."""
    rules = {str(each["name"]): _tensor_rule(each) for each in inputs}
    return FormRules(parts=rules)


def _tensor_rule(declared: Mapping[str, Any]) -> PartRule:
    axes = len(declared["shape"])
    is_text = declared["dtype"] == "str" and axes < 2
    return PartRule(as_it_is if is_text else json_or_text, is_list=axes == 1, is_array=True)


def prepare_readers(type_: Any) -> None:
    """Import what reads the files within *type_*.

    :raises ImportError: it is not installed.
    """
    for each in types_within(type_):
        if isinstance(leaf := leaf_of(each), MediaLeaf):
            leaf.prepare()


def _rule(type_: Any) -> PartRule:
    """Return how parts for a field of *type_* are read."""
    element = element_type(without_none(type_))
    single = type_ if element is None else element
    is_text = _is_marked(single)
    read = as_it_is if is_text else _reader(single)
    return PartRule(read, True, _is_file(single), is_text, element is not None)


def _reader(type_: Any) -> Callable[[str], Any]:
    """Return what reads the text of one part as *type_* wants it."""
    kinds = members(type_)
    if kinds and all(kind in (str, bytes) for kind in kinds):
        return as_it_is
    if are_texts(kinds):
        return unquoted
    if any(are_texts([kind]) for kind in kinds) and not any(map(is_model, kinds)):
        return lambda text: _fitting(text, type_)
    return json_or_text


def _fitting(text: str, type_: Any) -> Any:
    """Return the value of a JSON text if it is one and of *type_*, else the text."""
    value = json_or_text(text)
    try:
        convert(value, type_)
    except (NotOfType, msgspec.ValidationError):
        return text
    return value


def _is_file(type_: Any) -> bool:
    return isinstance(leaf_of(without_none(type_)), MediaLeaf)


def _is_marked(type_: Any) -> bool:
    """Whether *type_* is ``Text``, or may be."""
    origin = typing.get_origin(type_)
    if origin is typing.Annotated:
        return any(isinstance(each, TextPart) for each in type_.__metadata__)
    is_around = origin in (typing.Union, UnionType, typing.Required, typing.NotRequired)
    return is_around and any(map(_is_marked, typing.get_args(type_)))
