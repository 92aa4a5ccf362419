# SPDX-License-Identifier: Apache-2.0
"""JSON Schema in a few words, for a line of a terminal."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from servekit.description.forms import media_of
from servekit.description.interface import Tensor

__all__ = ["fields", "in_words", "tensor_words"]

TYPES: Final = {"string": "text", "null": "nothing", "number": "number", "integer": "whole number"}
#: how an array of an annotation describes itself
ARRAY: Final = re.compile(r"(\w+) array of shape \[(.*)\]")
BOUNDS: Final = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "pattern": "like {}",
}


def tensor_words(tensor: Tensor) -> str:
    """Return ``float32[any, 4]``."""
    axes = ", ".join("any" if size < 0 else str(size) for size in tensor.shape)
    return f"{tensor.dtype}[{axes}]"


def fields(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the name of each field of an object with what it holds; anything else has no name."""
    found = _followed(schema, definitions)
    if not found.get("properties"):
        return [("", in_words(schema, definitions))]
    required = found.get("required", ())
    return [
        (name, in_words(each, definitions) + ("" if name in required else ", optional"))
        for name, each in found["properties"].items()
    ]


def in_words(schema: Any, definitions: Mapping[str, Any]) -> str:
    """Return ``number, > 0, <= 30``; a definition is called by its name."""
    if not isinstance(schema, Mapping) or not schema:
        return "anything"
    if "$ref" in schema:
        named = _followed(schema, definitions)
        return in_words(named, {}) if "enum" in named else str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    forms = schema.get("anyOf") or schema.get("oneOf")
    if forms:
        return " or ".join(in_words(form, definitions) for form in forms)
    if media := media_of(schema):
        return f"file, {media}"
    if array := ARRAY.fullmatch(str(schema.get("description", ""))):
        return tensor_words(
            Tensor("", array[1], [int(size) for size in array[2].split(",") if size])
        )
    bounds = [text.format(schema[key]) for key, text in BOUNDS.items() if key in schema]
    return ", ".join([_kind(schema, definitions), *bounds])


def _kind(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    kind = str(schema.get("type", "anything"))
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"list of {in_words(schema['items'], definitions)}"
    if kind == "array":
        return "list"
    return TYPES.get(kind, kind)


def _followed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found: Mapping[str, Any] = definitions.get(name, schema)
    return found
