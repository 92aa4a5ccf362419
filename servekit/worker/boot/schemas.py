# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of annotated types, pydantic models among them, and of signatures."""

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from servekit.errors import BootError
from servekit.types.arrays import array_schema
from servekit.types.formats import FORMAT, OutputFormat
from servekit.worker.inputs.annotations import BatchTypes
from servekit.worker.inputs.media_leaf import LEAVES
from servekit.worker.inputs.model_leaf import adapter_of, is_model
from servekit.worker.inputs.type_tree import types_within
from servekit.worker.outputs.declared_media import DeclaredMedia, media_of
from servekit.worker.outputs.with_files import holds_media

__all__ = ["signed_schema", "typed_schemas"]

#: keys of schemas that are being made: the type of media, and the declared format
MEDIA: Final = "servekit.media"
MARKS: Final = (MEDIA, FORMAT)


def typed_schemas(types: BatchTypes) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the schemas of one input and of one output, and what they refer to.

    :raises BootError: msgspec cannot tell the members of a union apart.
    """
    try:
        inside = types_within(types.input), types_within(types.output)
        models = ModelSchemas(*(list(filter(is_model, each)) for each in inside))

        with _plain_defaults([*inside[0], *inside[1]]):
            if not holds_media(types.output):
                (given, got), definitions = _schemas([types.input, types.output], models)
            else:
                (given,), definitions = _schemas([types.input], models)
                got, written = _output_schema(types.output, models, definitions)
                definitions |= written
    except Exception as error:  # noqa: BLE001 - an annotation may raise anything
        reason = f"{str(error) or type(error).__name__}{types.place}"
        raise BootError(f"predict: its annotations cannot be described: {reason}") from None
    return given, got, definitions | models.definitions


def _schemas(
    types: Sequence[Any], models: "ModelSchemas", suffix: str = "", *, are_outputs: bool = False
) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """Return a schema for each of *types*, and what they refer to; its names end in *suffix*."""

    def other(unknown: Any) -> dict[str, Any]:
        if are_outputs and (media := media_of(unknown)) is not None:
            return {MEDIA: media.type}
        if unknown in LEAVES:
            return LEAVES[unknown].schema
        name = getattr(unknown, "__name__", str(unknown))
        return models.references.get(unknown, {"description": name})

    found, definitions = msgspec.json.schema_components(
        types, ref_template=f"#/$defs/{{name}}{suffix}", schema_hook=other
    )
    definitions = {f"{name}{suffix}": _with_formats(each) for name, each in definitions.items()}
    return tuple(map(_with_formats, found)), definitions


def _output_schema(
    output: Any, models: "ModelSchemas", known: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of an *output* with media, and what it refers to.

    A type with media is described twice if inputs have it, too, as more is known of outputs.

    :param known: what the schema of the input refers to.
    """
    (schema,), definitions = _schemas([output], models, are_outputs=True)
    if any(known.get(name, each) != each for name, each in definitions.items()):
        (schema,), definitions = _schemas([output], models, "-Output", are_outputs=True)
    return schema, definitions


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


class ModelSchemas:
    """The schemas of pydantic models: as they are read, and as they are written if that differs."""

    def __init__(self, inputs: Iterable[Any], outputs: Iterable[Any]) -> None:
        """Describe the models that are read, and those that are only written."""
        self.definitions: dict[str, Any] = {}
        self.references: dict[Any, dict[str, Any]] = {}
        for model in inputs:
            self._add(model, "validation", "")
        for model in outputs:
            if model not in self.references:
                plain = _definitions(model, "serialization", "")
                clash = any(
                    self.definitions.get(name, each) != each for name, each in plain.items()
                )
                self._add(model, "serialization", "-Output" if clash else "")

    def _add(self, model: Any, mode: str, suffix: str) -> None:
        self.definitions |= _definitions(model, mode, suffix)
        self.references[model] = {"$ref": f"#/$defs/{model.__name__}{suffix}"}


def _definitions(model: Any, mode: str, suffix: str) -> dict[str, Any]:
    schema = adapter_of(model).json_schema(ref_template=f"#/$defs/{{model}}{suffix}", mode=mode)
    inner: Mapping[str, Any] = schema.pop("$defs", {})
    if schema.keys() != {"$ref"}:  # a model that contains itself is a reference only
        inner = {model.__name__: schema, **inner}
    return {f"{name}{suffix}": each for name, each in inner.items()}


@contextmanager
def _plain_defaults(types: Iterable[Any]) -> Iterator[None]:
    """Let msgspec describe the pydantic dataclasses among *types*: hide ``Field`` defaults."""
    models = (type_ for type_ in types if is_model(type_) and dataclasses.is_dataclass(type_))
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
