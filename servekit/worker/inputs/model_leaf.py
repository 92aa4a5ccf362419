# SPDX-License-Identifier: Apache-2.0
"""Pydantic models and dataclasses as inputs.

servekit never imports pydantic: a service that declares a model has imported it.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import islice
from typing import Annotated, Any, Final, TypeGuard

import msgspec

from servekit.mistakes import Mistake
from servekit.worker.codecs.json import UNFIT, scan
from servekit.worker.inputs.leaves import Leaf, NotOfType

__all__ = ["ModelLeaf", "adapter_of", "is_model", "model_fields", "model_leaf"]

MAX_MISTAKES: Final = 100  #: reported for one model
NAMED: Final = {
    "missing": "missing",
    "extra_forbidden": "unknown field",
    "unexpected_keyword_argument": "unknown field",  # a dataclass raises it
}
DATACLASS: Final = "__is_pydantic_dataclass__"

#: found in every number that is too large for a float
MAY_BE_TOO_LARGE: Final = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}")

_decode = msgspec.json.Decoder().decode


def is_model(type_: Any) -> TypeGuard[type]:
    """Whether *type_* is a model or a dataclass of pydantic 2."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not isinstance(type_, type):
        return False
    return issubclass(type_, pydantic.BaseModel) or DATACLASS in vars(type_)


@cache
def model_leaf(type_: Any) -> "ModelLeaf":
    """Return the one leaf of the model *type_*."""
    return ModelLeaf(type_)


def model_fields(type_: Any) -> dict[str, Any]:
    """Return the types of the fields of a model, by every name they may have in an input."""
    found: dict[str, Any] = {}
    for name, field in getattr(type_, "model_fields", {}).items() if is_model(type_) else ():
        aliases = getattr(field.validation_alias, "choices", [field.validation_alias])
        kept = field.metadata  # pydantic keeps it apart from the annotation
        annotated = Annotated[(field.annotation, *kept)] if kept else field.annotation
        for each in (name, field.alias, *aliases):
            if isinstance(each, str):
                found[each] = annotated
    return found


def adapter_of(type_: Any) -> Any:
    """Return pydantic's ``TypeAdapter`` of a model."""
    return sys.modules["pydantic"].TypeAdapter(type_)


class ModelLeaf(Leaf):
    """Makes models by pydantic's own rules, ``model_config`` included."""

    def __init__(self, type_: Any) -> None:
        self._adapter = adapter_of(type_)

    def takes(self, _media_type: str) -> bool:
        """No: a model is made of JSON or msgpack."""
        return False

    def make(self, value: Any) -> Any:
        """Return the model made of a mapping; an instance is returned unchanged.

        A strict model takes the text of a date or a UUID from JSON only, whatever brought it.
        """
        try:
            return _validated(self._adapter.validate_python, value)
        except NotOfType:
            if (text := _json_of(value)) is None:
                raise
        return _validated(self._adapter.validate_json, text)

    def from_json(self, body: bytes) -> Any:
        """Return the model of a JSON text. A strict model takes dates from JSON only."""
        # pydantic accepts NaN, numbers beyond the largest float, and text after the value
        (_decode if MAY_BE_TOO_LARGE.search(body) else scan)(body)
        return _validated(self._adapter.validate_json, body)


def _json_of(value: Any) -> bytes | None:
    """Return the JSON of a decoded *value*; ``None`` if it holds what JSON does not have."""
    try:
        text = msgspec.json.encode(value)
        return text if _decode(text) == value else None
    except UNFIT:
        return None


def _validated(validate: Callable[[Any], Any], value: Any) -> Any:
    try:
        return validate(value)
    except ValueError as error:
        if not hasattr(error, "errors"):
            raise
        found = islice(error.errors(include_url=False, include_input=False), MAX_MISTAKES)
        raise NotOfType(*map(_mistake, found)) from None


def _mistake(error: Mapping[str, Any]) -> Mistake:
    if error["type"] in NAMED:
        return _path(error["loc"]), NAMED[error["type"]]
    message = str(error["msg"]).removeprefix("Value error, ")
    return _path(error["loc"]), message[:1].lower() + message[1:]


def _path(location: Iterable[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
