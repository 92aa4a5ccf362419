# SPDX-License-Identifier: Apache-2.0
"""Summaries of JSON Schemas, a few words for a line of a terminal."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from servekit.counting import counted
from servekit.description.forms import media_of
from servekit.description.interface import TensorType

__all__ = ["summarize", "summarize_fields", "summarize_tensor"]

TYPES: Final = {"string": "text", "null": "nothing", "number": "number", "integer": "whole number"}
#: how an array of an annotation describes itself
ARRAY: Final = re.compile(r"(\w+) array of shape \[(.*)\]")
BOUNDS: Final = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {}",
    "maxLength": "at most {}",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "pattern": "like {}",
}


def summarize_tensor(tensor: TensorType) -> str:
    """Return ``float32[any, 4]``."""
    axes = ", ".join("any" if size < 0 else str(size) for size in tensor.shape)
    return f"{tensor.dtype}[{axes}]"


def summarize_fields(
    schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return name and summary of each field; that of a file, or without fields, is named ""."""
    found = _followed(schema, definitions)
    if not found.get("properties") or media_of(found):
        return [("", summarize(schema, definitions))]
    required = found.get("required", ())
    return [
        (name, summarize(each, definitions) + ("" if name in required else ", optional"))
        for name, each in found["properties"].items()
    ]


def summarize(schema: Any, definitions: Mapping[str, Any]) -> str:
    """Return ``number, > 0, <= 30``, or the name of a definition."""
    if not isinstance(schema, Mapping) or not schema:
        return "anything"
    if "$ref" in schema:
        named = _followed(schema, definitions)
        return summarize(named, {}) if "enum" in named else str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    forms = schema.get("anyOf") or schema.get("oneOf")
    if forms:
        return " or ".join(summarize(form, definitions) for form in forms)
    if media := media_of(schema):
        return f"file, {media}"
    if array := ARRAY.fullmatch(str(schema.get("description", ""))):
        return summarize_tensor(
            TensorType("", array[1], [int(size) for size in array[2].split(",") if size])
        )
    bounds = [text.format(_bound(schema, key)) for key, text in BOUNDS.items() if key in schema]
    return ", ".join([_kind(schema, definitions), *bounds])


def _bound(schema: Mapping[str, Any], key: str) -> Any:
    return counted(schema[key], "character") if key.endswith("Length") else schema[key]


def _kind(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    kind = str(schema.get("type", "anything"))
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"list of {summarize(schema['items'], definitions)}"
    if kind == "array":
        return "list"
    return TYPES.get(kind, kind)


def _followed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found: Mapping[str, Any] = definitions.get(name, schema)
    return found
