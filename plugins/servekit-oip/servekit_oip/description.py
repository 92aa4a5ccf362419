# SPDX-License-Identifier: Apache-2.0
"""The protocol in OpenAPI: one path for each model, and what all of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["fragment"]

TAG: Final = "Open Inference Protocol"
TEXT: Final = {"type": "string"}
ANY: Final = {"type": "object"}
ERROR: Final = {"type": "object", "properties": {"error": TEXT}, "required": ["error"]}
TENSOR: Final = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "datatype": TEXT,
        "shape": {"type": "array", "items": {"type": "integer"}},
        "data": {"type": "array"},
        "parameters": ANY,
    },
    "required": ["name", "datatype", "shape"],
}
TENSORS: Final = {"type": "array", "items": TENSOR}
INFER_REQUEST: Final = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "parameters": ANY,
        "inputs": TENSORS,
        "outputs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": TEXT, "parameters": ANY},
                "required": ["name"],
            },
        },
    },
    "required": ["inputs"],
}
INFER_RESPONSE: Final = {
    "type": "object",
    "properties": {"model_name": TEXT, "model_version": TEXT, "id": TEXT, "outputs": TENSORS},
    "required": ["model_name", "outputs"],
}
PAGES: Final = {
    "/v2": ("oip_server", "The server, and the extensions of the protocol that it supports"),
    "/v2/health/live": ("oip_live", "Does the front-end answer at all?"),
    "/v2/health/ready": ("oip_ready", "Is the server ready, and each of its models?"),
    "/v2/models/stats": ("oip_stats", "What all models have done"),
}
MODEL_PAGES: Final = {
    "": ("oip_metadata", "The tensors of"),
    "/ready": ("oip_ready", "Readiness of"),
    "/config": ("oip_config", "The configuration of"),
    "/stats": ("oip_stats", "Statistics of"),
}


def fragment(document: Mapping[str, Any], models: Iterable[str]) -> dict[str, Any]:
    """Return what the protocol adds to the OpenAPI *document* of a server with *models*."""
    paths: dict[str, Any] = {
        path: {"get": _operation(name, summary, ANY)} for path, (name, summary) in PAGES.items()
    }
    for model in models:
        for path, (name, summary) in MODEL_PAGES.items():
            operation = _operation(f"{model}_{name}", f"{summary} {model}", ANY)
            paths[f"/v2/models/{model}{path}"] = {"get": operation}
        native = document["paths"].get(f"/{model}/predict", {}).get("post", {})
        paths[f"/v2/models/{model}/infer"] = {"post": _infer(model, native)}
    return {"paths": paths, "tags": [{"name": TAG}]}


def _infer(model: str, native: Mapping[str, Any]) -> dict[str, Any]:
    operation = _operation(f"{model}_oip_infer", f"Predict with {model}", INFER_RESPONSE)
    body = {"required": True, "content": _json(INFER_REQUEST)}
    secured = {"security": native["security"]} if "security" in native else {}
    return {**operation, "requestBody": body, **secured}


def _operation(name: str, summary: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    error = {"description": "An error", "content": _json(ERROR)}
    good = {"description": "OK", "content": _json(answer)}
    responses = {"200": good, "4XX": error, "5XX": error}
    return {"operationId": name, "summary": summary, "tags": [TAG], "responses": responses}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
