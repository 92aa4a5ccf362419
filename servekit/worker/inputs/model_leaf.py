# SPDX-License-Identifier: Apache-2.0
"""Pydantic models and dataclasses as inputs and outputs.

Whoever has one has imported pydantic; we do not.
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Annotated, Any, Final, TypeGuard

import msgspec

from servekit.worker.codecs.json import scan
from servekit.worker.inputs.leaves import NotOfType

__all__ = [
    "ModelLeaf",
    "ModelSchemas",
    "is_model",
    "model_fields",
    "model_leaf",
    "plain_defaults",
]

MOST: Final = 100  #: mistakes of one model that are told
NAMED: Final = {
    "missing": "missing",
    "extra_forbidden": "unknown field",
    "unexpected_keyword_argument": "unknown field",  # of a dataclass
}
DATACLASS: Final = "__is_pydantic_dataclass__"

#: what every number that no float can hold contains
MAY_BE_TOO_LARGE: Final = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}")

_decode = msgspec.json.Decoder().decode


def is_model(type_: Any) -> TypeGuard[type]:
    """Whether *type_* is a model or a dataclass of pydantic's (of version 2)."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not isinstance(type_, type):
        return False
    return issubclass(type_, pydantic.BaseModel) or DATACLASS in vars(type_)


@cache
def model_leaf(type_: Any) -> "ModelLeaf":
    """Return the one leaf of the model *type_*."""
    return ModelLeaf(type_)


def model_fields(type_: Any) -> dict[str, Any]:
    """Return the types of the fields of a model by all names that they may have in an input."""
    found: dict[str, Any] = {}
    for name, field in getattr(type_, "model_fields", {}).items() if is_model(type_) else ():
        aliases = getattr(field.validation_alias, "choices", [field.validation_alias])
        for each in (name, field.alias, *aliases):
            if isinstance(each, str):
                found[each] = _annotated(field)
    return found


def _annotated(field: Any) -> Any:
    """Return the annotation of a field of a model, which keeps its parts apart."""
    type_ = field.annotation
    return Annotated[(type_, *field.metadata)] if field.metadata else type_


class ModelLeaf:
    """Makes models by pydantic's own rules, ``model_config`` included."""

    def __init__(self, type_: Any) -> None:
        """Make instances of *type_*."""
        self._adapter = _adapter(type_)

    def takes(self, _media_type: str) -> bool:
        """No: a model is made of JSON and what is alike."""
        return False

    def make(self, value: Any) -> Any:
        """Make one of a mapping; an instance stays what it is."""
        return _validated(self._adapter.validate_python, value)

    def from_json(self, body: bytes) -> Any:
        """Make one of a JSON text, in which a strict model may find its dates."""
        # pydantic takes NaN, numbers over the largest float, and what follows the text
        (_decode if MAY_BE_TOO_LARGE.search(body) else scan)(body)
        return _validated(self._adapter.validate_json, body)


def _adapter(type_: Any) -> Any:
    return sys.modules["pydantic"].TypeAdapter(type_)


def _validated(validate: Callable[[Any], Any], value: Any) -> Any:
    try:
        return validate(value)
    except ValueError as error:
        if not hasattr(error, "errors"):
            raise
        raise NotOfType(*_mistakes(error.errors(include_url=False, include_input=False))) from None


def _mistakes(errors: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(_path(each["loc"]), _message(each)) for each in islice(errors, MOST)]


def _path(location: Iterable[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] in NAMED:
        return NAMED[error["type"]]
    message = str(error["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


@contextmanager
def plain_defaults(types: Iterable[Any]) -> Iterator[None]:
    """Let msgspec describe dataclasses of pydantic's among *types*, whose ``Field`` it cannot."""
    models = (type_ for type_ in types if is_model(type_) and dataclasses.is_dataclass(type_))
    fields = [field for model in models for field in dataclasses.fields(model)]
    defaults = [(field, field.default) for field in fields if _is_field_info(field.default)]
    for field, _ in defaults:
        field.default = dataclasses.MISSING
    try:
        yield
    finally:
        for field, default in defaults:
            field.default = default


def _is_field_info(value: Any) -> bool:
    return isinstance(value, sys.modules["pydantic"].fields.FieldInfo)


class ModelSchemas:
    """The schemas of models: as they are read, and as they are written where that differs."""

    def __init__(self, inputs: Iterable[Any], outputs: Iterable[Any]) -> None:
        """Describe the models that are read, and those that are only written."""
        self.definitions: dict[str, Any] = {}
        self.references: dict[Any, dict[str, Any]] = {}
        for model in inputs:
            self._add(model, _definitions(model, "validation", ""), "")
        for model in outputs:
            if model not in self.references:
                suffix = (
                    "-Output" if self._clashes(_definitions(model, "serialization", "")) else ""
                )
                self._add(model, _definitions(model, "serialization", suffix), suffix)

    def _clashes(self, definitions: Mapping[str, Any]) -> bool:
        return any(self.definitions.get(name, each) != each for name, each in definitions.items())

    def _add(self, model: Any, definitions: Mapping[str, Any], suffix: str) -> None:
        self.definitions |= definitions
        self.references[model] = {"$ref": f"#/$defs/{model.__name__}{suffix}"}


def _definitions(model: Any, mode: str, suffix: str) -> dict[str, Any]:
    schema = _adapter(model).json_schema(ref_template=f"#/$defs/{{model}}{suffix}", mode=mode)
    inner = schema.pop("$defs", {})
    if schema.keys() != {"$ref"}:  # which a model that holds itself is
        inner = {model.__name__: schema} | inner
    return {f"{name}{suffix}": each for name, each in inner.items()}
