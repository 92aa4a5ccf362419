# SPDX-License-Identifier: Apache-2.0
"""The protocol in OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["fragment"]

TEXT: Final = {"type": "string"}
ERROR: Final = {"type": "object", "properties": {"error": TEXT}, "required": ["error"]}
MODEL: Final = {"name": "model", "in": "path", "required": True, "schema": TEXT}
TAGS: Final = ["KServe V1"]


def fragment(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the protocol adds to the OpenAPI *document* of the server."""
    is_secured = "token" in document["components"].get("securitySchemes", {})
    predict = {
        "operationId": "kserve_v1_predict",
        "summary": "Predict for each instance",
        "parameters": [MODEL],
        "requestBody": {"required": True, "content": _json(_list_of("instances"))},
        "responses": _responses("The predictions, in the order of the instances", "predictions"),
        **({"security": [{"token": []}]} if is_secured else {}),
    }
    status = {
        "operationId": "kserve_v1_status",
        "summary": "Is the model ready?",
        "parameters": [MODEL],
        "responses": _responses("It is ready", "model_version_status"),
    }
    models = {
        "operationId": "kserve_v1_models",
        "summary": "The names of all models",
        "responses": _responses("The models", "models"),
    }
    return {
        "paths": {
            "/v1/models": {"get": {"tags": TAGS, **models}},
            "/v1/models/{model}": {"get": {"tags": TAGS, **status}},
            "/v1/models/{model}:predict": {"post": {"tags": TAGS, **predict}},
        },
        "tags": [{"name": TAGS[0]}],
    }


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _list_of(member: str) -> dict[str, Any]:
    return {"type": "object", "properties": {member: {"type": "array"}}, "required": [member]}


def _responses(description: str, member: str) -> dict[str, Any]:
    error = {"description": "An error", "content": _json(ERROR)}
    good = {"description": description, "content": _json(_list_of(member))}
    return {"200": good, "4XX": error, "5XX": error}
