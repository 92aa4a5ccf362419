# SPDX-License-Identifier: Apache-2.0
"""The routes of MLflow in OpenAPI, with the columns and tensors of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.extension import ModelView

__all__ = ["fragment"]

TAG: Final = "MLflow"
TEXT: Final = {"type": "string"}
ERROR: Final = {
    "type": "object",
    "properties": {"error_code": TEXT, "message": TEXT},
    "required": ["error_code", "message"],
}
PREDICTIONS: Final = {"type": "object", "properties": {"predictions": {}}}


def fragment(document: Mapping[str, Any], models: Mapping[str, ModelView]) -> dict[str, Any]:
    """Return what the protocol adds to the OpenAPI *document* of a server with *models*."""
    if not models:
        return {}
    paths: dict[str, Any] = {
        f"/{name}": {"get": _operation(f"mlflow_{name}", summary, {})}
        for name, summary in {
            "health": "Is the server ready?",
            "version": "The version of MLflow",
        }.items()
    }
    if len(models) == 1:
        ((name, view),) = models.items()
        native = document["paths"].get(f"/{name}/predict", {}).get("post", {})
        operation = _operation("mlflow_invocations", f"Predict with {name}", PREDICTIONS)
        secured = {"security": native["security"]} if "security" in native else {}
        paths["/invocations"] = {"post": {**operation, "requestBody": _body(view), **secured}}
    return {"paths": paths, "tags": [{"name": TAG}]}


def _body(view: ModelView) -> dict[str, Any]:
    interface = view.interface
    schema = interface.input_schema if interface is not None and interface.signature else {}
    mapping = schema.get("anyOf", [schema])[0]  # a single input may also stand without its name
    formats = {
        "dataframe_split": _split(mapping.get("properties", {})),
        "dataframe_records": {"type": "array", "items": _open(mapping)},
        "instances": {"type": "array"},
        "inputs": {},
    }
    params = {"type": ["object", "null"]}
    choices = [
        {
            "type": "object",
            "properties": {name: format_, "params": params},
            "required": [name],
        }
        for name, format_ in formats.items()
    ]
    content = {"application/json": {"schema": {"anyOf": choices}}, "text/csv": {"schema": TEXT}}
    return {"required": True, "content": content}


def _split(columns: Mapping[str, Any]) -> dict[str, Any]:
    row = {"type": "array", "items": {}}
    names = {"enum": list(columns)} if columns else {}
    return {
        "type": "object",
        "properties": {
            "columns": {"type": "array", "items": names},
            "data": {"type": "array", "items": row},
            "index": {"type": "array"},
        },
        "required": ["data"],
    }


def _open(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a record, which may have columns that the model does not need."""
    return {key: value for key, value in mapping.items() if key != "additionalProperties"}


def _operation(name: str, summary: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    error = {"description": "An error", "content": _json(ERROR)}
    good = {"description": "OK", "content": _json(answer)}
    responses = {"200": good, "4XX": error, "5XX": error}
    return {"operationId": name, "summary": summary, "tags": [TAG], "responses": responses}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
