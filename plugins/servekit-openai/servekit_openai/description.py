# SPDX-License-Identifier: Apache-2.0
"""The protocol in OpenAPI: paths and errors. OpenAI's own description has every member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit_openai.tasks import CHAT, COMPLETION, EMBEDDING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["describe_models", "describe_predictions"]

TAG: Final = "OpenAI"
TEXT: Final = {"type": "string"}
OBJECT: Final = {"type": "object"}
MAYBE_TEXT: Final = {"type": ["string", "null"]}
ERROR_MEMBERS: Final = {"message": TEXT, "type": TEXT, "param": MAYBE_TEXT, "code": MAYBE_TEXT}
ERROR: Final = {
    "type": "object",
    "properties": {"error": {"type": "object", "properties": ERROR_MEMBERS}},
    "required": ["error"],
}
MODEL: Final = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "object": {"const": "model"},
        "created": {"type": "integer"},
        "owned_by": TEXT,
    },
}
LIST: Final = {
    "type": "object",
    "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": MODEL}},
}
MESSAGES: Final = {"type": "array", "items": OBJECT, "minItems": 1}
INPUTS: Final = {"type": ["string", "array"]}
#: by task: what is done, and the member of the body that holds the input
TASKS: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    CHAT: ("Continue a conversation", "messages", MESSAGES),
    COMPLETION: ("Complete prompts", "prompt", INPUTS),
    EMBEDDING: ("Embed inputs", "input", INPUTS),
}


def describe_predictions(document: Mapping[str, Any], path: str, task: str) -> dict[str, Any]:
    """Return the operation at *path*, with the security that *document* has."""
    summary, member, schema = TASKS[task]
    answer = _json(OBJECT)
    if task != EMBEDDING:
        answer["text/event-stream"] = {"schema": TEXT}
    operation = _operation(f"openai_{task}", summary, answer)
    body = {
        "type": "object",
        "properties": {"model": TEXT, member: schema},
        "required": ["model", member],
    }
    operation["requestBody"] = {"required": True, "content": _json(body)}
    if "securitySchemes" in document.get("components", {}):
        operation["security"] = [{"token": []}]
    return {"paths": {path: {"post": operation}}}


def describe_models() -> dict[str, Any]:
    """Return the operations that tell what models there are."""
    every = _operation("openai_models", "The models that OpenAI's clients can use", _json(LIST))
    one = _operation("openai_model", "One of these models", _json(MODEL))
    one["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": TEXT}]
    return {"paths": {"/v1/models": {"get": every}, "/v1/models/{id}": {"get": one}}}


def _operation(name: str, summary: str, content: Mapping[str, Any]) -> dict[str, Any]:
    error = {"description": "An error", "content": _json(ERROR)}
    good = {"description": "OK", "content": content}
    responses = {"200": good, "4XX": error, "5XX": error}
    return {"operationId": name, "summary": summary, "tags": [TAG], "responses": responses}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
