# SPDX-License-Identifier: Apache-2.0
"""The management API in OpenAPI 3.0, as ``OPTIONS /`` returns it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["describe_api"]


class CallEntry(NamedTuple):
    """One call."""

    method: str
    path: str
    name: str  #: the id of the operation
    summary: str
    parameters: tuple[str, ...] = ()  #: in the query, with ``: type`` if it is not a string
    statuses: tuple[int, ...] = (200,)


REGISTRATION: Final = (
    *("url", "model_name", "runtime", "batch_size: integer", "max_batch_delay: integer"),
    *("initial_workers: integer", "synchronous: boolean"),
)
WORKERS: Final = ("min_worker: integer", "max_worker: integer", "synchronous: boolean")
PAGE: Final = ("limit: integer", "next_page_token: integer")
CALLS: Final = (
    CallEntry(
        *("post", "/models", "registerModel", "Load a model or a version"),
        REGISTRATION,
        (200, 202, 400, 404, 405, 409, 500),
    ),
    CallEntry("get", "/models", "listModels", "All models, page by page", PAGE),
    CallEntry(
        "get", "/models/{model_name}", "describeModel", "The default version", (), (200, 404)
    ),
    CallEntry(
        *("put", "/models/{model_name}", "setAutoScale", "Change the number of workers"),
        WORKERS,
        (200, 202, 400, 404, 500),
    ),
    CallEntry(
        *("delete", "/models/{model_name}", "unregisterModel", "Unload a model"),
        (),
        (200, 403, 404, 405),
    ),
    CallEntry(
        *("get", "/models/{model_name}/{model_version}", "version_describeModel"),
        *("One version, or all of them: all", (), (200, 404)),
    ),
    CallEntry(
        *("put", "/models/{model_name}/{model_version}", "version_setAutoScale"),
        *("Change the number of workers of a version", WORKERS, (200, 202, 400, 404, 500)),
    ),
    CallEntry(
        *("delete", "/models/{model_name}/{model_version}", "version_unregisterModel"),
        *("Unload a version", (), (200, 403, 404, 405)),
    ),
    CallEntry(
        *("put", "/models/{model_name}/{model_version}/set-default", "setDefault"),
        *("Let a version answer where a request names none", (), (200, 404)),
    ),
)


def describe_api() -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, Any] = {}
    for call in CALLS:
        paths.setdefault(call.path, {})[call.method] = _operation(call)
    return {
        "openapi": "3.0.1",
        "info": {"title": "TorchServe management API, by servekit", "version": "1.0.0"},
        "paths": paths,
    }


def _operation(call: CallEntry) -> dict[str, Any]:
    in_path = [part[1:-1] for part in call.path.split("/") if part.startswith("{")]
    parameters = [_parameter(name, "path") for name in in_path]
    parameters += [_parameter(text, "query") for text in call.parameters]
    return {
        "operationId": call.name,
        "summary": call.summary,
        "parameters": parameters,
        "responses": {str(status): _response(status) for status in call.statuses},
    }


def _parameter(text: str, place: str) -> dict[str, Any]:
    name, _, kind = text.partition(": ")
    required = {"required": True} if place == "path" or name == "url" else {}
    return {"name": name, "in": place, **required, "schema": {"type": kind or "string"}}


def _response(status: int) -> dict[str, Any]:
    description = "Done" if status == 200 else "Begun" if status == 202 else "Refused or failed"
    return {"description": description, "content": {"application/json": {}}}
