# SPDX-License-Identifier: Apache-2.0
"""JSON Schema reduced to what a Schema Object of Swagger 2.0 can say (its section 5.3.15).

What it cannot express is left out, so the result accepts at least what the schema accepts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["swagger_schema"]

KEPT: Final = (
    *("type", "title", "description", "format", "pattern", "minLength", "maxLength"),
    *("minimum", "maximum", "multipleOf", "minItems", "maxItems", "uniqueItems"),
    *("minProperties", "maxProperties", "enum", "required"),
)


def swagger_schema(schema: Any) -> dict[str, Any]:
    """Return *schema*, its references unchanged, as a Schema Object of Swagger 2.0."""
    if not isinstance(schema, Mapping):  # true accepts everything; Swagger cannot express false
        return {}
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    forms = _alternatives(schema)
    if forms:
        return _reduce_alternatives(schema, forms)
    reduced = {key: schema[key] for key in KEPT if schema.get(key) not in (None, [])}
    if "const" in schema:
        reduced["enum"] = [schema["const"]]
    if reduced.get("type") == "null":
        del reduced["type"]
        reduced["x-nullable"] = True
    return reduced | _exclusive_bounds(schema) | _inner_schemas(schema)


def _alternatives(schema: Mapping[str, Any]) -> Sequence[Any]:
    """Return the schemas of which a value fits one, if there are several."""
    if isinstance(schema.get("type"), list):
        return [{**schema, "type": name} for name in schema["type"]]
    return schema.get("anyOf") or schema.get("oneOf") or ()


def _reduce_alternatives(schema: Mapping[str, Any], forms: Sequence[Any]) -> dict[str, Any]:
    told = {key: schema[key] for key in ("title", "description") if key in schema}
    real = [form for form in forms if not _is_null(form)]
    if len(real) == 1:
        lone = swagger_schema(real[0])
        # a reference has no other keys
        return lone if "$ref" in lone else {**told, **lone, "x-nullable": len(forms) > 1}
    return told


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def _exclusive_bounds(schema: Mapping[str, Any]) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for bound in ("Minimum", "Maximum"):
        limit = schema.get(f"exclusive{bound}")
        if isinstance(limit, int | float) and not isinstance(limit, bool):
            bounds |= {bound.lower(): limit, f"exclusive{bound}": True}
    return bounds


def _inner_schemas(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    if "properties" in schema:
        properties = schema["properties"].items()
        inner["properties"] = {name: swagger_schema(each) for name, each in properties}
    if schema.get("type") == "array":  # it must have items
        inner["items"] = {} if "prefixItems" in schema else swagger_schema(schema.get("items"))
    extra = schema.get("additionalProperties")
    if extra is not None:
        inner["additionalProperties"] = extra if isinstance(extra, bool) else swagger_schema(extra)
    if schema.get("allOf"):
        inner["allOf"] = [swagger_schema(each) for each in schema["allOf"]]
    return inner
