# SPDX-License-Identifier: Apache-2.0
"""Makes a value that fits a JSON Schema: its types, choices, sizes and bounds."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

__all__ = ["sample_value"]

Definitions = Mapping[str, Any]
REFERENCES: Final = "#/$defs/"
TEXTS: Final = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "time": "12:00:00",
    "duration": "PT1M",
    "decimal": "1.0",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


class _Endless(Exception):
    """A type that contains itself, without end."""


def sample_value(schema: Any, definitions: Definitions) -> Any:
    """Return a value of *schema*, whose references are ``#/$defs/NAME`` of *definitions*."""
    try:
        return _value_of(schema, definitions, ())
    except _Endless:
        return None


def _value_of(schema: Any, definitions: Definitions, inside: tuple[str, ...]) -> Any:
    """:param inside: the definitions that the value is part of."""
    if not isinstance(schema, Mapping):
        return {}
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix(REFERENCES)
        if name in inside:
            raise _Endless
        return _value_of(definitions.get(name), definitions, (*inside, name))
    if given := _given(schema):
        return given[0]
    forms = schema.get("anyOf") or schema.get("oneOf")
    if forms:
        return _first(forms, definitions, inside)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    make = MAKERS.get(str(kind))
    return make(schema, definitions, inside) if make else None


def _given(schema: Mapping[str, Any]) -> Sequence[Any]:
    """Return the values that the schema itself names, the best one first."""
    for key in ("examples", "enum"):
        if schema.get(key):
            return list(schema[key])
    return [schema[key] for key in ("const", "default") if key in schema]


def _first(forms: Sequence[Any], definitions: Definitions, inside: tuple[str, ...]) -> Any:
    """Return a value of the first of *forms* that ends; null only if no other does."""
    for form in sorted(forms, key=lambda form: form == {"type": "null"}):
        try:
            return _value_of(form, definitions, inside)
        except _Endless:
            continue
    raise _Endless


def _object(schema: Mapping[str, Any], definitions: Definitions, inside: tuple[str, ...]) -> Any:
    """Return every required field; if none is required, every field."""
    fields = schema.get("properties", {})
    wanted = schema.get("required") or [name for name in fields if not _holds(fields[name], inside)]
    value = {name: _value_of(fields.get(name, {}), definitions, inside) for name in wanted}
    more = schema.get("additionalProperties")
    if not fields and isinstance(more, Mapping):
        value["key"] = _value_of(more, definitions, inside)
    return value


def _holds(schema: Any, inside: tuple[str, ...]) -> bool:
    """Whether a field refers to a definition that it is part of."""
    text = str(schema)
    return any(f"{REFERENCES}{name}'" in text for name in inside)


def _array(schema: Mapping[str, Any], definitions: Definitions, inside: tuple[str, ...]) -> Any:
    value = [_value_of(each, definitions, inside) for each in schema.get("prefixItems", ())]
    least = schema.get("minItems", 0 if value else 1)
    while len(value) < min(least, schema.get("maxItems", least)):
        value.append(_value_of(schema.get("items"), definitions, inside))
    return value


def _string(schema: Mapping[str, Any], *_: Any) -> str:
    if schema.get("contentEncoding") == "base64":
        return "AAAA"
    text = TEXTS.get(schema.get("format", ""), "text")
    return text.ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]


def _integer(schema: Mapping[str, Any], *_: Any) -> int:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf - 1) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", math.inf) - 1)
    step = schema.get("multipleOf", 1)
    value = max(low, min(1, high))
    return int(math.ceil(value / step) * step)


def _number(schema: Mapping[str, Any], *_: Any) -> float:
    low = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
    high = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
    if low < 1 < high:
        return 1.0
    if math.isfinite(low) and math.isfinite(high):
        return float(low + high) / 2
    return float(low + 1 if math.isfinite(low) else high - 1)


MAKERS: Final[Mapping[str, Callable[..., Any]]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": lambda *_: True,
    "null": lambda *_: None,
}
