# SPDX-License-Identifier: Apache-2.0
"""The inference API of TorchServe in OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.extension import ModelView

__all__ = ["describe_model", "describe_server", "fragment"]

TAG: Final = "TorchServe"
TEXT: Final = {"type": "string"}
ERROR: Final = {
    "type": "object",
    "properties": {"code": {"type": "integer"}, "type": TEXT, "message": TEXT},
    "required": ["code", "type", "message"],
}
ANY: Final[dict[str, Any]] = {"*/*": {"schema": {}}}


def describe_model(view: ModelView) -> dict[str, Any]:
    """Return the OpenAPI document of one model."""
    return _document(f"RESTful API for: {view.name}", _paths({view.name: view}, {}))


def describe_server(models: Mapping[str, ModelView]) -> dict[str, Any]:
    """Return the OpenAPI document of a server with *models*."""
    return _document("TorchServe APIs", {"/ping": {"get": _ping()}, **_paths(models, {})})


def _document(title: str, paths: Mapping[str, Any]) -> dict[str, Any]:
    return {"openapi": "3.0.1", "info": {"title": title, "version": "1.0.0"}, "paths": paths}


def fragment(document: Mapping[str, Any], models: Mapping[str, ModelView]) -> dict[str, Any]:
    """Return what the protocol adds to the OpenAPI *document* of a server with *models*."""
    return {"paths": _paths(models, document), "tags": [{"name": TAG}]} if models else {}


def _paths(models: Mapping[str, ModelView], document: Mapping[str, Any]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for name in models:
        native = document.get("paths", {}).get(f"/{name}/predict", {}).get("post", {})
        secured = {"security": native["security"]} if "security" in native else {}
        for verb, what in ("predictions", "Predict with"), ("explanations", "Explain with"):
            operation = _operation(f"torchserve_{verb}_{name}", f"{what} {name}")
            body = {"requestBody": {"required": True, "content": ANY}}
            paths[f"/{verb}/{name}"] = {"post": {**operation, **body, **secured}}
    return paths


def _ping() -> dict[str, Any]:
    return _operation("ping", "Is the server healthy?")


def _operation(name: str, summary: str) -> dict[str, Any]:
    error = {"description": "An error", "content": {"application/json": {"schema": ERROR}}}
    good = {"description": "The response of the handler", "content": ANY}
    responses = {"200": good, "4XX": error, "5XX": error}
    return {"operationId": name, "summary": summary, "tags": [TAG], "responses": responses}
