# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of annotated types, pydantic models among them, and of signatures."""

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from servekit.errors import BootError
from servekit.types.arrays import array_schema
from servekit.types.formats import FORMAT, OutputFormat
from servekit.worker.boot.definitions import OWN, Definitions, moved, referred
from servekit.worker.inputs.annotations import BatchTypes
from servekit.worker.inputs.media_leaf import LEAVES
from servekit.worker.inputs.model_leaf import adapter_of, is_model
from servekit.worker.inputs.type_tree import types_within
from servekit.worker.outputs.declared_media import DeclaredMedia, media_of

__all__ = ["signed_schema", "typed_schemas"]

#: keys of schemas that are being made: the type of media, and the declared format
MEDIA: Final = "servekit.media"
MARKS: Final = (MEDIA, FORMAT)


def typed_schemas(types: BatchTypes) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the schemas of one input and of one output, and what they refer to.

    :raises BootError: msgspec cannot tell the members of a union apart.
    """
    known = Definitions()
    try:
        given = _schema(types.input, known)
        got = _schema(types.output, known, are_outputs=True)
    except Exception as error:  # noqa: BLE001 - an annotation may raise anything
        reason = f"{str(error) or type(error).__name__}{types.place}"
        raise BootError(f"predict: its annotations cannot be described: {reason}") from None
    return given, got, known.found


def _schema(type_: Any, known: Definitions, *, are_outputs: bool = False) -> Any:
    """Return the schema of *type_*, and add to *known* what it refers to.

    A type is described twice if it is read otherwise than written: a model may have other names
    for its fields, and of media in outputs more is known.
    """
    models = _references(filter(is_model, types_within(type_)), known, are_outputs=are_outputs)

    def other(unknown: Any) -> dict[str, Any]:
        if are_outputs and (media := media_of(unknown)) is not None:
            return {MEDIA: media.type}
        if unknown in LEAVES:
            return LEAVES[unknown].schema
        name = getattr(unknown, "__name__", str(unknown))
        return {"$ref": models[unknown]} if unknown in models else {"description": name}

    # msgspec describes dataclasses by itself, without the rules that pydantic has for them
    by_pydantic = [model for model in models if dataclasses.is_dataclass(model)]
    with _plain_defaults(by_pydantic):
        (schema, *others), definitions = msgspec.json.schema_components(
            [type_, *by_pydantic], ref_template=f"{OWN}{{name}}", schema_hook=other
        )
    kept = {each["$ref"]: models[model] for each, model in zip(others, by_pydantic, strict=True)}
    schema, definitions = moved(_with_formats([schema, definitions]), kept)
    moves = known.add(referred(schema, definitions), are_outputs=are_outputs)
    return moved(schema, moves)


def _with_formats(schema: Any) -> Any:
    """Return *schema* with the schemas of its media in their declared formats."""
    if isinstance(schema, list | tuple):
        return [_with_formats(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: _with_formats(each) for key, each in schema.items() if key not in MARKS}
    if MEDIA not in schema:  # a Format says nothing about inputs
        return kept
    declared = OutputFormat(schema[FORMAT]) if FORMAT in schema else None
    return DeclaredMedia(schema[MEDIA], declared).schema() | kept


def signed_schema(tensors: Any) -> dict[str, Any]:
    """Return the schema of a mapping of arrays; a single array may also stand alone."""
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


def _references(models: Iterable[Any], known: Definitions, *, are_outputs: bool) -> dict[Any, str]:
    """Return references to pydantic models, and add their schemas to *known*."""
    found = {}
    for model in models:
        own, group = _described(model, are_outputs=are_outputs)
        found[model] = known.add(group, are_outputs=are_outputs)[own]
    return found


def _described(model: Any, *, are_outputs: bool) -> tuple[str, dict[str, Any]]:
    """Return the reference to a model, and its schema with those that it refers to.

    msgspec writes the instances of dataclasses, without aliases.
    """
    schema = adapter_of(model).json_schema(
        ref_template=f"{OWN}{{model}}",
        mode="serialization" if are_outputs else "validation",
        by_alias=not (are_outputs and dataclasses.is_dataclass(model)),
    )
    inner: Mapping[str, Any] = schema.pop("$defs", {})
    if schema.keys() == {"$ref"}:  # a model that contains itself
        return schema["$ref"], dict(inner)
    name = model.__name__
    while name in inner:  # it contains another model of this name
        name += "-2"
    return f"{OWN}{name}", {name: schema, **inner}


@contextmanager
def _plain_defaults(models: Iterable[Any]) -> Iterator[None]:
    """Let msgspec describe dataclasses of pydantic: hide the defaults made by ``Field``."""
    fields = [field for model in models for field in dataclasses.fields(model)]
    infos = sys.modules["pydantic"].fields.FieldInfo if fields else ()
    defaults = [(field, field.default) for field in fields if isinstance(field.default, infos)]
    for field, _ in defaults:
        field.default = dataclasses.MISSING
    try:
        yield
    finally:
        for field, default in defaults:
            field.default = default
