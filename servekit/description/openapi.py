# SPDX-License-Identifier: Apache-2.0
"""The server in OpenAPI 3.1: ``/openapi.json``."""

from collections.abc import Sequence
from typing import Any, Final

import servekit
from servekit.description import problems
from servekit.description.content import REFERENCES, answer_content, request_content
from servekit.description.forms import TEXT, form_schema
from servekit.description.interface import PathDescription
from servekit.description.schemas import Schema, definitions

__all__ = ["openapi"]

HEALTH: Final[Schema] = {
    "type": "object",
    "properties": {
        "health": {"type": "string", "enum": ["healthy!", "unhealthy!"]},
        "reasons": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["health"],
}
HEADERS: Final = {
    "X-Request-Id": {
        "description": "The id that the client sent, or a new one; it is in the server's logs.",
        "schema": {"type": "string"},
    },
    "X-Model-Version": {
        "description": "The version of the model that answered.",
        "schema": {"type": "string"},
    },
    "Server-Timing": {
        "description": "Where the time went, in milliseconds.",
        "schema": {"type": "string"},
    },
}
TOKEN: Final = {"type": "http", "scheme": "bearer"}
SECURED: Final[dict[str, Any]] = {"security": [{"token": []}]}
PARAMETERS: Final = {
    "RequestId": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "An id for this request: 1 to 128 visible ASCII characters; the "
        "server replaces any other.",
        "schema": {"type": "string"},
    },
    "RequestTimeout": {
        "name": "X-Request-Timeout-Ms",
        "in": "header",
        "description": "When to give up with a 504, if sooner than the model's own timeout.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    },
}


def openapi(models: Sequence[PathDescription], *, needs_token: bool = False) -> dict[str, Any]:
    """Return the description of every route, and of each of *models*.

    :param needs_token: predictions need a bearer token.
    """
    schemas = {"Problem": problems.SCHEMA, "Health": HEALTH}
    paths = _server_paths()
    for model in models:
        schemas |= definitions(model, REFERENCES)
        secured = SECURED if needs_token else {}
        paths[model.path] = {"post": _predict(model) | secured}
        if model.get:
            paths[model.path]["get"] = _predict_by_query(model) | secured
        paths[f"/{model.name}/ping"] = {"get": _health(model.name, f"Is {model.name} ready?")}
    components: dict[str, Any] = {
        "schemas": schemas,
        "headers": HEADERS,
        "parameters": dict(PARAMETERS),
        "responses": problems.shared_responses(f"{REFERENCES}Problem"),
    }
    if needs_token:
        components["securitySchemes"] = {"token": TOKEN}
    return {
        "openapi": "3.1.0",
        "info": {"title": "servekit", "version": servekit.__version__},
        "servers": [{"url": "/"}],
        "tags": [*_model_tags(models), {"name": "server"}],
        "paths": paths,
        "components": components,
    }


def _model_tags(models: Sequence[PathDescription]) -> list[dict[str, str]]:
    about = {model.name: model.description for model in models if not model.slug}
    names = dict.fromkeys(model.name for model in models)
    return [{"name": name, "description": about.get(name, "")} for name in names]


def _server_paths() -> dict[str, Any]:
    documents = {
        "/": ("root", "Name, version and links", "application/json"),
        "/api-description": ("api-description", "The models in Swagger 2.0", "application/json"),
        "/openapi.json": ("openapi", "This document", "application/json"),
        "/metrics": ("metrics", "Prometheus metrics", "text/plain"),
    }
    paths = {
        "/ping": {"get": _health("", "Is the server ready, and each of its models?")},
        "/ping/ready": {"get": _health("", "The same as /ping", "ready")},
        "/ping/live": {"get": _health("", "Does the front-end answer at all?", "live")},
    }
    for path, (operation, summary, media_type) in documents.items():
        answer = {"description": "OK", "content": {media_type: {}}}
        paths[path] = {"get": _get(operation, summary, {"200": answer})}
    return paths


def _get(operation: str, summary: str, responses: Schema, tag: str = "server") -> Schema:
    return {
        "operationId": operation,
        "summary": summary,
        "tags": [tag],
        "responses": responses,
    }


def _health(model: str, summary: str, kind: str = "") -> Schema:
    operation = "_".join(filter(None, [model, "ping", kind]))
    content = {"application/json": {"schema": {"$ref": f"{REFERENCES}Health"}}}
    responses = {"200": {"description": "Healthy", "content": content}}
    if kind != "live":  # if it is not alive, it does not answer
        responses["503"] = {"description": "Not healthy", "content": content}
    return _get(operation, summary, responses, model or "server")


def _predict(model: PathDescription) -> Schema:
    known = [{"$ref": f"#/components/parameters/{name}"} for name in PARAMETERS]
    answer = {
        "description": "The predictions" if model.instances else "The prediction",
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS},
        "content": answer_content(model),
    }
    answers = {"200": answer}
    if model.instances:
        answers["207"] = {**answer, "description": "Some instances have an error"}
    return {
        "operationId": model.operation,
        "summary": model.summary,
        "description": model.description,
        "tags": [model.name],
        "parameters": [*known, *({**each, "schema": TEXT} for each in model.parameters)],
        "requestBody": {"required": True, "content": request_content(model)},
        "responses": {**answers, **problems.responses()},
        **({"x-servekit-envelope": False} if model.style.is_bare else {}),
    }


def _predict_by_query(model: PathDescription) -> Schema:
    """Return the operation of GET, which has the fields of the input as parameters."""
    described, fields = _predict(model), form_schema(model)
    del described["requestBody"]
    required = fields.get("required", ())
    described["parameters"] += [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in fields.get("properties", {}).items()
        if name not in model.request_query
    ]
    return described | {"operationId": f"{model.operation}_get"}
