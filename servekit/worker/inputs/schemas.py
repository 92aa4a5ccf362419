# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of annotated types and of signatures."""

from typing import Any

import msgspec

from servekit.errors import BootError
from servekit.types.arrays import array_schema
from servekit.worker.inputs.annotations import BatchTypes
from servekit.worker.inputs.media_leaf import LEAVES
from servekit.worker.inputs.model_leaf import ModelSchemas, is_model, plain_defaults
from servekit.worker.inputs.type_tree import types_within

__all__ = ["signed_schema", "typed_schemas"]


def typed_schemas(types: BatchTypes) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the schemas of one input and of one output, and what they refer to.

    :raises BootError: msgspec cannot tell the members of a union apart.
    """
    try:
        models = ModelSchemas(
            [each for each in types_within(types.input) if is_model(each)],
            [each for each in types_within(types.output) if is_model(each)],
        )

        def other(unknown: Any) -> dict[str, Any]:
            if unknown in LEAVES:
                return LEAVES[unknown].schema
            name = getattr(unknown, "__name__", str(unknown))
            return models.references.get(unknown, {"description": name})

        with plain_defaults([*types_within(types.input), *types_within(types.output)]):
            (given, got), definitions = msgspec.json.schema_components(
                [types.input, types.output], ref_template="#/$defs/{name}", schema_hook=other
            )
    except Exception as error:  # noqa: BLE001 - whatever an annotation makes of itself
        reason = f"{str(error) or type(error).__name__}{types.place}"
        raise BootError(f"predict: its annotations cannot be described: {reason}") from None
    return given, got, definitions | models.definitions


def signed_schema(tensors: Any) -> dict[str, Any]:
    """Return the schema of a mapping of arrays; of one array alone, if there is one."""
    if not tensors:
        return {}
    properties = {
        tensor["name"]: array_schema(tensor["dtype"], tensor["shape"]) for tensor in tensors
    }
    mapping = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return mapping if len(properties) > 1 else {"anyOf": [mapping, *properties.values()]}
