# SPDX-License-Identifier: Apache-2.0
"""The protocol in OpenAPI: the same inputs and outputs as those of the native routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["fragment"]

TEXT: Final = {"type": "string"}
ERROR: Final = {"type": "object", "properties": {"error": TEXT}, "required": ["error"]}
TAG: Final = "KServe V1"


def fragment(document: Mapping[str, Any], models: Iterable[str]) -> dict[str, Any]:
    """Return what the protocol adds to the OpenAPI *document* of a server with *models*."""
    listed = _operation("kserve_v1_models", "The names of all models", _list_of("models", TEXT))
    paths: dict[str, Any] = {"/v1/models": {"get": listed}}
    for model in models:
        status = _list_of("model_version_status", {"type": "object"})
        ready = _operation(f"{model}_kserve_v1_status", f"Is {model} ready?", status)
        paths[f"/v1/models/{model}"] = {"get": ready}
        if (native := document["paths"].get(f"/{model}/predict")) is not None:
            paths[f"/v1/models/{model}:predict"] = {"post": _predict(model, native["post"])}
    return {"paths": paths, "tags": [{"name": TAG}]}


def _predict(model: str, native: Mapping[str, Any]) -> dict[str, Any]:
    """Describe predictions with *model*, as its *native* route describes them."""
    instance = _schema(native["requestBody"]["content"])
    prediction = _schema(native["responses"]["200"]["content"])
    answer = _list_of("predictions", prediction.get("properties", {}).get("prediction", {}))
    operation = _operation(f"{model}_kserve_v1_predict", f"Predict with {model}", answer)
    body = _json(_list_of("instances", instance))
    secured = {"security": native["security"]} if "security" in native else {}
    return {**operation, "requestBody": {"required": True, "content": body}, **secured}


def _schema(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of JSON, or one that allows anything."""
    schema: Mapping[str, Any] = content.get("application/json", {}).get("schema", {})
    return schema


def _operation(name: str, summary: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    error = {"description": "An error", "content": _json(ERROR)}
    good = {"description": "OK", "content": _json(answer)}
    responses = {"200": good, "4XX": error, "5XX": error}
    return {"operationId": name, "summary": summary, "tags": [TAG], "responses": responses}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _list_of(member: str, items: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "array", "items": items}
    return {"type": "object", "properties": {member: schema}, "required": [member]}
