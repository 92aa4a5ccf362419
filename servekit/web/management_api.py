# SPDX-License-Identifier: Apache-2.0
"""The management listener in OpenAPI 3.1; the schemas come from the classes of its messages."""

from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

import servekit
from servekit.description import problems
from servekit.ipc.crash_reports import CrashReport
from servekit.ipc.kept_log import LOG_LEVELS
from servekit.ipc.operations import (
    Load,
    OperationRow,
    ReloadModels,
    RollBack,
    Scale,
    SetTraffic,
    Swap,
)
from servekit.web.logs import LogPage
from servekit.web.models import ModelList, ModelState
from servekit.web.operations import OperationList
from servekit.web.requested import MAX_WAIT_S, TAG

__all__ = ["describe_management"]

REFERENCES: Final = "#/components/schemas/"
BODIES: Final = (Load, Scale, SetTraffic, Swap, RollBack, ReloadModels)
WAIT: Final = {
    "name": "wait",
    "in": "query",
    "description": "Seconds to wait for the end of the operation.",
    "schema": {"type": "number", "minimum": 0, "maximum": MAX_WAIT_S, "default": 0},
}
NUMBER: Final = {"type": "integer", "minimum": 0}
LOG_PARAMETERS: Final[list[dict[str, Any]]] = [
    {"name": "model", "in": "query", "schema": {"type": "string"}},
    {
        "name": "level",
        "in": "query",
        "description": "The lowest level.",
        "schema": {"type": "string", "enum": list(LOG_LEVELS)},
    },
    {
        "name": "since",
        "in": "query",
        "description": "The earliest time.",
        "schema": {"type": "string", "format": "date-time"},
    },
    {"name": "after", "in": "query", "description": "``next`` of a page.", "schema": NUMBER},
    {
        "name": "run",
        "in": "query",
        "description": "``run`` of the page of ``after``.",
        "schema": {"type": "string"},
    },
    {"name": "limit", "in": "query", "description": "How many lines.", "schema": NUMBER},
    {**WAIT, "description": "Seconds to wait for a line."},
]


class PathEntry(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    name: str  #: the id of the operation in the document
    summary: str
    bodies: tuple[type, ...] = ()  #: one of them is the body
    answer: type | None = None  #: class of the response; ``None``: any JSON


PATHS: Final = (
    PathEntry("get", "/", "root", "Links"),
    PathEntry("get", "/ping", "ping", "Is the server ready, and each of its models?"),
    PathEntry("get", "/ping/ready", "ping_ready", "The same as /ping"),
    PathEntry("get", "/ping/live", "ping_live", "Does the front-end answer at all?"),
    PathEntry("get", "/{model}/ping", "ping_model", "Is one model ready?"),
    PathEntry("get", "/metrics", "metrics", "Prometheus metrics"),
    PathEntry("get", "/openapi.json", "openapi", "This document"),
    PathEntry("get", "/models", "models", "All models", answer=ModelList),
    PathEntry("get", "/models/{name}", "model", "One model, with settings", answer=ModelState),
    PathEntry("post", "/models", "load", "Load a model or a version", (Load,), OperationRow),
    PathEntry(
        *("put", "/models/{name}", "change", "Scale a model, or change the traffic"),
        (Scale, SetTraffic),
        OperationRow,
    ),
    PathEntry("delete", "/models/{name}", "unload", "Unload a model", answer=OperationRow),
    PathEntry(
        *("delete", "/models/{name}/versions/{version}", "unload_version"),
        "Unload a version",
        answer=OperationRow,
    ),
    PathEntry(
        *("post", "/models/{name}/swap", "swap", "Replace the default version, with proof"),
        (Swap,),
        OperationRow,
    ),
    PathEntry(
        *("post", "/models/{name}/rollback", "roll_back", "Return to the version before"),
        (RollBack,),
        OperationRow,
    ),
    PathEntry(
        *("post", "/models/{name}/reload", "reload_model", "Load what has changed of a model"),
        (ReloadModels,),
        OperationRow,
    ),
    PathEntry("post", "/reload", "reload", "Load what has changed, as SIGHUP does"),
    PathEntry(
        *("get", "/operations", "operations", "The operations of the last minutes"),
        answer=OperationList,
    ),
    PathEntry(
        *("get", "/operations/{id}", "operation", "How far one operation is"),
        answer=OperationRow,
    ),
    PathEntry("get", "/logs", "logs", "The last lines of the log", answer=LogPage),
    PathEntry("get", "/crashes", "crashes", "Crash reports of workers, without bodies"),
    PathEntry("get", "/crashes/{number}", "crash", "A crash report, with the bodies that are kept"),
)


@cache
def describe_management() -> dict[str, Any]:
    """Return the document; treat it as read-only."""
    paths: dict[str, Any] = {}
    for entry in PATHS:
        paths.setdefault(entry.path, {})[entry.method] = _operation(entry)
    return {
        "openapi": "3.1.0",
        "info": {"title": "servekit management", "version": servekit.__version__},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "responses": problems.shared_responses(f"{REFERENCES}Problem"),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(entry: PathEntry) -> dict[str, Any]:
    names = [part[1:-1] for part in entry.path.split("/") if part.startswith("{")]
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
    if entry.answer is OperationRow:
        parameters.append(WAIT)
    if entry.answer is LogPage:
        parameters += LOG_PARAMETERS
    found = {
        "operationId": entry.name,
        "summary": entry.summary,
        "parameters": parameters,
        "responses": {**_answers(entry), **problems.responses()},
    }
    return found | ({"requestBody": _request_body(entry)} if entry.bodies else {})


def _request_body(entry: PathEntry) -> dict[str, Any]:
    references = [_reference(kind) for kind in entry.bodies]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    is_required = entry.bodies[0] not in (RollBack, ReloadModels)
    return {"required": is_required, "content": {"application/json": {"schema": schema}}}


def _answers(entry: PathEntry) -> dict[str, Any]:
    schema = _reference(entry.answer) if entry.answer else {}
    media_type = "text/plain" if entry.path == "/metrics" else "application/json"
    answer = {"description": "OK", "content": {media_type: {"schema": schema}}}
    if entry.path == "/reload":
        return {"202": answer}
    if entry.answer is not OperationRow or entry.method == "get":
        return {"200": answer}
    location = {"description": "Where to look for its end.", "schema": {"type": "string"}}
    return {
        "200": {**answer, "description": "It is done"},
        "202": {**answer, "description": "It runs", "headers": {"Location": location}},
    }


def _reference(kind: type) -> dict[str, Any]:
    return {"$ref": f"{REFERENCES}{kind.__name__}"}


def _schemas() -> dict[str, Any]:
    kinds = [*BODIES, OperationRow, OperationList, ModelState, ModelList, LogPage, CrashReport]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=REFERENCES + "{name}")
    for kind in BODIES:
        hidden = (TAG,) if kind is Load else (TAG, "model")  # the path has the model
        schema = schemas[kind.__name__]
        for name in hidden:
            del schema["properties"][name]
        schema["required"] = [name for name in schema["required"] if name not in hidden]
    return {**schemas, "Problem": problems.SCHEMA}
