# SPDX-License-Identifier: Apache-2.0
"""Jobs in OpenAPI: what a prediction may be asked for, and where its answer is found later."""

from collections.abc import Mapping
from typing import Any, Final

from servekit.description import problems
from servekit.description.content import PLACE
from servekit.description.forms import TEXT
from servekit.description.schemas import Schema

__all__ = ["jobs_fragment"]

STATUSES: Final = ("pending", "completed", "failed")
SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "status": {"type": "string", "enum": list(STATUSES)},
        "model": TEXT,
        "url": TEXT,
        "result_url": TEXT,
        "result_status": {"type": "integer", "description": "Of the answer, once there is one."},
    },
    "required": ["id", "status", "model", "url", "result_url"],
}
ID: Final = {"name": "id", "in": "path", "required": True, "schema": TEXT}
PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "description": "``respond-async`` to fetch the answer later; with ``wait=N`` only if it is "
    "not there within so many seconds.",
    "schema": TEXT,
}
WAIT: Final = {
    "name": "Prefer",
    "in": "header",
    "description": "``wait=N``: answer when the job does, or after so many seconds.",
    "schema": TEXT,
}
LOCATION: Final = {"description": "The path of the job.", "schema": TEXT}
JOB: Final = {"application/json": {"schema": {"$ref": f"{PLACE}Job"}}}


def jobs_fragment(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what jobs add to an OpenAPI *document*."""
    is_secured = "token" in document["components"].get("securitySchemes", {})
    accepted = {
        "description": "A job, whose answer can be fetched later",
        "headers": {"Location": LOCATION},
        "content": JOB,
    }
    prefer = {"$ref": "#/components/parameters/Prefer"}
    submitted = {"post": {"parameters": [prefer], "responses": {"202": accepted}}}
    paths = {path: submitted for path, known in document["paths"].items() if "post" in known}
    return {
        "components": {"schemas": {"Job": SCHEMA}, "parameters": {"Prefer": PREFER}},
        "paths": paths | _job_paths({"security": [{"token": []}]} if is_secured else {}),
        "tags": [{"name": "jobs"}],
    }


def _job_paths(secured: dict[str, Any]) -> dict[str, Any]:
    """Return what can be asked of a job."""
    answers = problems.responses()
    missing = {"4XX": answers["4XX"]}
    read = {"tags": ["jobs"], "parameters": [ID, WAIT], **secured}
    one = {
        "get": read
        | {
            "operationId": "job",
            "summary": "How a job stands",
            "responses": {"200": {"description": "How it stands", "content": JOB}, **missing},
        },
        "delete": {
            "operationId": "job_delete",
            "summary": "Cancel a job, or forget its answer",
            "tags": ["jobs"],
            "parameters": [ID],
            "responses": {"204": {"description": "It is forgotten"}, **missing},
            **secured,
        },
    }
    result = {
        "get": read
        | {
            "operationId": "job_result",
            "summary": "The answer of a job, as the prediction would have been answered",
            "responses": {
                "200": {"description": "The prediction", "content": {"*/*": {}}},
                "202": {"description": "It is not there yet", "content": JOB},
                **answers,
            },
        },
    }
    return {"/jobs/{id}": one, "/jobs/{id}/result": result}
