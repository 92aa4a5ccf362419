# SPDX-License-Identifier: Apache-2.0
"""Forms, ``multipart/form-data``: one part for each input, or for each field of a typed one."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from servekit.description.interface import JSON, PathDescription, TensorType
from servekit.description.schemas import Schema, tensor_schema

__all__ = ["BINARY", "TEXT", "FormPart", "form_schema", "media_of", "parts"]

BINARY: Final[Schema] = {"type": "string", "format": "binary"}
TEXT: Final[Schema] = {"type": "string"}


class FormPart(msgspec.Struct, frozen=True):
    """One part of a form."""

    name: str
    is_file: bool
    is_required: bool
    words: str  #: its content
    is_json: bool = True  #: otherwise a file, or plain text
    media: str = ""  #: media range of a file, if that is known
    is_list: bool = False  #: there may be several parts of this name


def form_schema(model: PathDescription) -> Schema:
    """Return the schema of a form: every part is a file, JSON text, or plain text."""
    found = parts(model)
    if not found:
        return {"type": "object"}
    required = [part.name for part in found if part.is_required]
    return {
        "type": "object",
        "properties": {part.name: _schema(model, part) for part in found},
        **({"required": required} if required else {}),
    }


def parts(model: PathDescription) -> list[FormPart]:
    """Return the parts of a form of *model*; none if its fields are not known."""
    if model.signature.inputs:
        return [_of_tensor(model, tensor) for tensor in model.signature.inputs]
    schema = _followed(model.input_schema, model)
    if alone := _file_alone(schema, model):
        return [alone]
    required = schema.get("required", ())
    fields = schema.get("properties", {}).items()
    return [
        _of_field(name, _followed(each, model), name in required, model) for name, each in fields
    ]


def _file_alone(schema: Mapping[str, Any], model: PathDescription) -> FormPart | None:
    """Return the only part if the input itself is a file or a list of files; any name will do."""
    media = media_of(schema) or _file_in_a_list(schema, model)
    if not media:
        return None
    kind = media.partition("/")[0]
    return _of_field(kind if kind in ("image", "audio") else "file", schema, True, model)


def _of_tensor(model: PathDescription, tensor: TensorType) -> FormPart:
    array = tensor_schema(tensor).get("description", tensor.dtype)
    if tensor.dtype == "str" and not tensor.shape:
        return FormPart(tensor.name, model.takes_files, True, "text", is_json=False)
    return FormPart(tensor.name, model.takes_files, True, f"{array}, as JSON")


def _of_field(
    name: str, schema: Mapping[str, Any], is_required: bool, model: PathDescription
) -> FormPart:
    if inner := _file_in_a_list(schema, model):
        return FormPart(
            name, True, is_required, "files, a part each", is_json=False, media=inner, is_list=True
        )
    media = next(filter(None, map(media_of, schema.get("anyOf") or [schema])), "")
    is_file = bool(media)
    kind = "a file" if is_file else "text" if _is_text(schema, model) else "JSON"
    words = str(schema.get("description", kind))
    return FormPart(name, is_file, is_required, words, is_json=kind == "JSON", media=media)


def _schema(model: PathDescription, part: FormPart) -> Schema:
    if part.is_file:
        return {"type": "array", "items": BINARY} if part.is_list else BINARY
    schema: Schema = {**TEXT, "description": part.words}
    if not part.is_json:
        return schema
    schema["contentMediaType"] = JSON
    for example in model.examples:
        if isinstance(example.input, dict) and part.name in example.input:
            schema["examples"] = [msgspec.json.encode(example.input[part.name]).decode()]
            break
    return schema


def _is_text(schema: Mapping[str, Any], model: PathDescription) -> bool:
    """Whether *schema* is that of text, optional or not, but not a date or a choice."""
    forms = [_followed(form, model) for form in schema.get("anyOf") or [schema]]
    values = [form for form in forms if form.get("type") != "null"]
    return bool(values) and all(
        form.get("type") == "string" and not form.keys() & {"enum", "format"} for form in values
    )


def _file_in_a_list(schema: Mapping[str, Any], model: PathDescription) -> str:
    """Return the media range of the files of a list, or ""."""
    forms = schema.get("anyOf") or [schema]
    items = (form.get("items") for form in forms if form.get("type") == "array")
    return next((media_of(_followed(item, model)) for item in items if item), "")


def media_of(schema: Mapping[str, Any]) -> str:
    """Return the media range of a file of ``servekit.types``; "" if *schema* is something else."""
    content = schema.get("properties", {}).get("b64", {})
    is_file = content.get("contentEncoding") == "base64"
    return str(content.get("contentMediaType", "")) if is_file else ""


def _followed(schema: Any, model: PathDescription) -> Mapping[str, Any]:
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    found: Mapping[str, Any] = model.definitions.get(name, schema)
    return found
