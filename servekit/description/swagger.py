# SPDX-License-Identifier: Apache-2.0
"""The server in Swagger 2.0, in the form that clients of MXNet Model Server read.

As there, a model with a signature, or with files among its fields, takes a form with one field for
each. Swagger cannot describe a JSON body beside a form, so any other model takes a body.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from servekit.description import problems
from servekit.description.forms import FormPart, parts
from servekit.description.interface import JSON, MULTIPART, PathDescription
from servekit.description.schemas import (
    Schema,
    answer,
    answer_value,
    definitions,
    input_schema,
    instances,
    predictions,
)
from servekit.description.swagger_schemas import swagger_schema

__all__ = ["swagger"]

REFERENCES: Final = "#/definitions/"
TEXT: Final = {"type": "string"}
#: Swagger 2.0 has no bearer tokens
TOKEN: Final = {
    "type": "apiKey", "in": "header", "name": "Authorization", "description": "Bearer TOKEN",
}  # fmt: skip
SECURED: Final[dict[str, Any]] = {"security": [{"token": []}]}
PROBLEM: Final = {"description": "What is wrong", "schema": {"$ref": f"{REFERENCES}Problem"}}


def swagger(models: Sequence[PathDescription], *, needs_token: bool = False) -> dict[str, Any]:
    """Return the description of each of *models*, without the address of the server.

    :param needs_token: predictions need a bearer token.
    """
    schemas: dict[str, Schema] = {"Problem": problems.SCHEMA}
    paths = _server_paths()
    for model in models:
        own = definitions(model, REFERENCES)
        schemas |= {name: swagger_schema(schema) for name, schema in own.items()}
        secured = SECURED if needs_token else {}
        paths[model.path] = {"post": _predict(model) | secured}
        if model.get:
            paths[model.path]["get"] = _predict_by_query(model) | secured
    return {
        "swagger": "2.0",
        "info": {"version": "1.0.0", "title": "Model Serving Apis"},
        "basePath": "/",
        "paths": paths,
        "definitions": schemas,
        **({"securityDefinitions": {"token": TOKEN}} if needs_token else {}),
    }


def _server_paths() -> dict[str, Any]:
    answers = {
        "/ping": ("ping", {"health": TEXT}),
        "/api-description": ("api-description", {"description": {"type": "object"}}),
        "/": ("root", {"name": TEXT, "version": TEXT}),
    }
    return {path: {"get": _get(*answer)} for path, answer in answers.items()}


def _get(operation: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    answer = {"description": "OK", "schema": {"type": "object", "properties": properties}}
    return {
        "operationId": operation,
        "produces": [JSON],
        "responses": {"200": answer, "default": PROBLEM},
    }


def _predict(model: PathDescription) -> dict[str, Any]:
    found = parts(model)
    has_form = model.signature.inputs or any(part.is_file for part in found)
    is_form = has_form and not model.instances
    taken = [_field(part) for part in found] if is_form else [_body(model)]
    asked = [{"required": False, **each, **TEXT} for each in model.parameters]
    return {
        "operationId": model.operation,
        "summary": model.summary,
        "description": model.description,
        "consumes": [MULTIPART] if is_form else _bodies(model),
        "produces": [
            *(each for each in model.produces if not each.endswith("/*")),
            "application/problem+json",
        ],
        "parameters": [*taken, *asked],
        "responses": {**_answers(model), "default": PROBLEM},
    }


def _predict_by_query(model: PathDescription) -> dict[str, Any]:
    """Return the operation of GET, which has the fields of the input as parameters."""
    described = _predict(model)
    fields = [_field(part) | {"in": "query", "type": "string"} for part in parts(model)]
    own = [each for each in described["parameters"] if each["in"] not in ("body", "formData")]
    names = [each["name"] for each in own]
    described["parameters"] = [*own, *(each for each in fields if each["name"] not in names)]
    del described["consumes"]
    return described | {"operationId": f"{model.operation}_get"}


def _bodies(model: PathDescription) -> list[str]:
    """Return the media types of a body; a form needs the names of its fields."""
    return [each for each in model.consumes if each != MULTIPART] or [JSON]


def _field(part: FormPart) -> dict[str, Any]:
    words = (
        part.words
        if part.is_list
        else "a file"
        if part.is_file
        else part.words + (" text" if part.is_json else "")
    )
    return {
        "in": "formData",
        "name": part.name,
        "description": f"{part.name}: {words}",
        "required": part.is_required,
        "type": "file" if part.is_file else "string",
    }


def _body(model: PathDescription) -> dict[str, Any]:
    schema = instances(model, REFERENCES) if model.instances else input_schema(model, REFERENCES)
    return {
        "in": "body",
        "name": "input",
        "description": "Several inputs" if model.instances else "One input",
        "required": True,
        "schema": swagger_schema(schema),
    }


def _answers(model: PathDescription) -> dict[str, Any]:
    if not model.instances:
        return {"200": _answer(model)}
    schema = swagger_schema(predictions(model, REFERENCES))
    words = {"200": "OK", "207": "Some instances have an error"}
    return {status: {"description": text, "schema": schema} for status, text in words.items()}


def _answer(model: PathDescription) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": "OK",
        "schema": swagger_schema(answer(model, REFERENCES)),
    }
    for example in model.examples:
        if example.output is not None and JSON in model.produces:
            return described | {"examples": {JSON: answer_value(model, example.output)}}
    return described
