# SPDX-License-Identifier: Apache-2.0
"""``/api-description`` as clients of MMS read it, in Swagger 2.0; and the paths in OpenAPI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from servekit_mms.archives import JPEG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from servekit.extension import ModelView
    from servekit_mms.archives import LegacySignature, SignedTensor

__all__ = [
    "Described",
    "field_text",
    "fragment",
    "of_signature",
    "of_view",
    "swagger",
]

JSON: Final = "application/json"
FORM: Final = "multipart/form-data"
TEXT: Final = {"type": "string"}
PAGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "/ping": {"health": TEXT},
    "/api-description": {"description": {"type": "object"}},
    "/": {"health": TEXT},  # where the setting root is on
}
#: a name or an IPv4 address, and a port; Swagger 2.0 has no place for an IPv6 address
HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})(:[0-9]{1,5})?")
TOKEN: Final = {
    "type": "apiKey", "in": "header", "name": "Authorization", "description": "Bearer TOKEN",
}  # fmt: skip
BODY: Final = {
    "in": "body", "name": "body", "description": "what the handler takes", "required": True,
    "schema": {},
}  # fmt: skip


class Field(NamedTuple):
    """One part of a form."""

    name: str
    text: str
    is_file: bool


class Described(NamedTuple):
    """A model: the parts of its form, and its prediction."""

    fields: Sequence[Field]  #: none for a handler of 1.x, which takes anything
    is_picture: bool  #: the prediction is a JPEG in base64


def field_text(tensor: SignedTensor, *, is_file: bool) -> str:
    """Return what MMS says of an input."""
    kind = "image which will be resized to" if is_file else "a tensor with shape"
    return f"{tensor.data_name} should be {kind}: {tensor.shape}"


def of_signature(signature: LegacySignature) -> Described:
    """Return the description of a model of 0.x that has not been loaded."""
    is_file = signature.input_type == JPEG
    fields = [
        Field(each.data_name, field_text(each, is_file=is_file), is_file)
        for each in signature.inputs
    ]
    return Described(fields, is_picture=signature.output_type == JPEG)


def of_view(view: ModelView) -> Described:
    """Return the description of a model that has been loaded."""
    interface = view.interface
    assert interface is not None, "it is loaded"
    inputs = interface.input_schema
    if "$ref" in inputs:
        inputs = interface.schema_definitions[inputs["$ref"].rpartition("/")[2]]
    fields = [
        Field(name, schema.get("description", name), "b64" in schema.get("properties", {}))
        for name, schema in inputs.get("properties", {}).items()
    ]
    return Described(fields, interface.output_schema.get("contentMediaType") == JPEG)


def swagger(
    models: Mapping[str, Described], host: str, scheme: str = "http", *, needs_token: bool = False
) -> dict[str, Any]:
    """Return the description of a server of *models*.

    :param host: and port, as the client names them.
    """
    paths = {path: {"get": _page(path, answer)} for path, answer in PAGES.items()}
    secured: dict[str, Any] = {"security": [{"token": []}]} if needs_token else {}
    for name, model in models.items():
        paths[f"/{name}/predict"] = {"post": _predict(name, model) | secured}
    return {
        "swagger": "2.0",
        "info": {"version": "1.0.0", "title": "Model Serving Apis"},
        **({"host": host} if HOST.fullmatch(host) else {}),
        "schemes": [scheme],
        "paths": paths,
        **({"securityDefinitions": {"token": TOKEN}} if needs_token else {}),
    }


def _page(path: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "operationId": path.removeprefix("/") or "root",
        "produces": [JSON],
        "responses": {"200": _ok({"type": "object", "properties": properties})},
    }


def _predict(name: str, model: Described) -> dict[str, Any]:
    prediction = {"format": "byte", **TEXT} if model.is_picture else {}
    answer = {"type": "object", "properties": {"prediction": prediction}}
    return {
        "operationId": f"{name}_predict",
        "consumes": [FORM] if model.fields else [JSON, "application/octet-stream"],
        "produces": [JSON],
        "parameters": [_parameter(each) for each in model.fields] or [BODY],
        "responses": {"200": _ok(answer if model.fields else {})},
    }


def _parameter(field: Field) -> dict[str, Any]:
    return {
        "in": "formData",
        "name": field.name,
        "description": field.text,
        "required": True,
        "type": "file" if field.is_file else "string",
    }


def _ok(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": "OK", "schema": schema}


def fragment(document: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return what the protocol adds to the OpenAPI *document* of a server: bare predictions."""
    paths: dict[str, Any] = {}
    for name in names:
        native = document["paths"].get(f"/{name}/predict", {}).get("post")
        if native is None:
            continue
        answer = {"description": "The prediction, without an object around it"}
        responses = {**native["responses"], "200": {**answer, "content": {JSON: {"schema": {}}}}}
        operation = {**native, "responses": responses, "x-servekit-envelope": False}
        for path in (f"/predictions/{name}", f"/models/{name}/invoke"):
            slug = path.strip("/").replace("/", "_")
            paths[path] = {"post": {**operation, "operationId": f"mms_{slug}"}}
    return {"paths": paths} if paths else {}
