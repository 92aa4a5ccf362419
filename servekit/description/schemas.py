# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of inputs and outputs, and the references between them."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from servekit.description.interface import PathDescription, TensorType

__all__ = [
    "Schema",
    "answer",
    "answer_value",
    "definitions",
    "input_schema",
    "instances",
    "output_schema",
    "predictions",
    "relocate",
    "tensor_schema",
]

Schema = dict[str, Any]

DTYPE: Final = re.compile(r"(u?int|float)(\d+)")


def input_schema(model: PathDescription, prefix: str) -> Schema:
    """Return the schema of one input; its references begin with *prefix*."""
    schema = _schema(model, model.input_schema, model.signature.inputs, prefix)
    if schema or not model.signature.inputs:
        return schema
    arrays = [f"{each.name}, {each.dtype} {each.shape}" for each in model.signature.inputs]
    return {"description": f"Converted by the service to: {'; '.join(arrays)}"}


def output_schema(model: PathDescription, prefix: str) -> Schema:
    """Return the schema of one output; its references begin with *prefix*."""
    return _schema(model, model.output_schema, model.signature.outputs, prefix)


def answer(model: PathDescription, prefix: str) -> Schema:
    """Return the schema of a whole answer, or of that to one of several inputs."""
    output = output_schema(model, prefix)
    if model.style.is_bare:
        return output
    return {"type": "object", "properties": {"prediction": output}, "required": ["prediction"]}


def answer_value(model: PathDescription, output: Any) -> Any:
    """Return the whole answer with *output*."""
    return output if model.style.is_bare else {"prediction": output}


def instances(model: PathDescription, prefix: str) -> Schema:
    """Return the schema of a body with several inputs."""
    inputs = {"type": "array", "items": input_schema(model, prefix)}
    return {"type": "object", "properties": {"instances": inputs}, "required": ["instances"]}


def predictions(model: PathDescription, prefix: str) -> Schema:
    """Return the schema of the answer to several inputs: a prediction or an error of each."""
    error = {
        "type": "object",
        "properties": {"error": {"$ref": f"{prefix}Problem"}},
        "required": ["error"],
    }
    each = {"anyOf": [answer(model, prefix), error]}
    if model.style.is_bare:
        return {"type": "array", "items": each}
    return {
        "type": "object",
        "properties": {"predictions": {"type": "array", "items": each}},
        "required": ["predictions"],
    }


def definitions(model: PathDescription, prefix: str) -> dict[str, Schema]:
    """Return the schemas that the model's schemas refer to, under names unique to the model."""
    moves = _moves(model, prefix)
    return {
        _public_name(model, name): relocate(schema, moves)
        for name, schema in model.definitions.items()
    }


def tensor_schema(tensor: TensorType) -> Schema:
    """Return the schema of one array in JSON: lists in lists, or a single value."""
    schema = _scalar_schema(tensor.dtype)
    for size in reversed(tensor.shape):
        schema = {"type": "array", "items": schema}
        if size >= 0:
            schema |= {"minItems": size, "maxItems": size}
    if tensor.shape:
        schema["description"] = f"{tensor.dtype} array of shape {tensor.shape}"
    return schema


def _schema(
    model: PathDescription, known: Schema, tensors: Sequence[TensorType], prefix: str
) -> Schema:
    if known or model.is_loaded:
        relocated: Schema = relocate(known, _moves(model, prefix))
        return relocated
    if not tensors:
        return {}
    named = {
        "type": "object",
        "properties": {tensor.name: tensor_schema(tensor) for tensor in tensors},
        "required": [tensor.name for tensor in tensors],
    }
    # a lone input needs no name, and a lone output may come without one
    return {"anyOf": [tensor_schema(tensors[0]), named]} if len(tensors) == 1 else named


def _scalar_schema(dtype: str) -> Schema:
    if dtype == "bool":
        return {"type": "boolean"}
    match = DTYPE.fullmatch(dtype)
    if match is None:
        return {"type": "string"} if dtype.startswith("str") else {}
    kind, bits = match[1], int(match[2])
    if kind == "float":
        return {"type": "number", "format": "double" if bits == 64 else "float", "examples": [0]}
    low, high = (0, 2**bits - 1) if kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if bits > 32:  # beyond what JSON readers keep exact; no bound is better than a wrong one
        return {"type": "integer", "format": "int64", "examples": [0]}
    return {"type": "integer", "minimum": low, "maximum": high, "examples": [0]}


def _public_name(model: PathDescription, name: str) -> str:
    # the name of a model may contain dots, so the part after the last one must not
    own = f"{model.slug}--{name}" if model.slug else name
    return f"{model.name}.{re.sub(r'[^A-Za-z0-9_-]', '_', own)}"


def _moves(model: PathDescription, prefix: str) -> dict[str, str]:
    return {f"#/$defs/{name}": f"{prefix}{_public_name(model, name)}" for name in model.definitions}


def relocate(value: Any, moves: Mapping[str, str]) -> Any:
    """Return a copy of *value* with its references moved; what JSON cannot express is dropped.

    Discriminators name their targets outside of ``$ref``, so every string is checked.
    """
    if isinstance(value, Mapping):
        return {
            key: relocate(inner, moves)
            for key, inner in value.items()
            if not _is_inexpressible(key, inner, moves)
        }
    if isinstance(value, list | tuple):
        return [relocate(inner, moves) for inner in value]
    return moves.get(value, value) if isinstance(value, str) else value


def _is_inexpressible(key: str, value: Any, moves: Mapping[str, str]) -> bool:
    if key == "default":  # JSON has no NaN, and null is another value
        return isinstance(value, float) and not math.isfinite(value)
    return key == "$ref" and isinstance(value, str) and value not in moves
