# SPDX-License-Identifier: Apache-2.0
"""Jobs in OpenAPI: what a prediction may be asked for, and where its answer is found later."""

from typing import Any, Final

from servekit.description import problems
from servekit.description.content import PLACE
from servekit.description.forms import TEXT
from servekit.description.schemas import Schema

__all__ = ["add_jobs"]

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


def add_jobs(document: dict[str, Any], secured: dict[str, Any]) -> None:
    """Add to an OpenAPI *document* what jobs change; *secured* is what makes them need a token."""
    parts, paths = document["components"], document["paths"]
    parts["schemas"]["Job"] = SCHEMA
    parts["parameters"]["Prefer"] = PREFER
    accepted = {
        "description": "A job, whose answer can be fetched later",
        "headers": {"Location": LOCATION},
        "content": JOB,
    }
    for operations in paths.values():
        if "post" in operations:
            operations["post"]["parameters"].append({"$ref": "#/components/parameters/Prefer"})
            operations["post"]["responses"]["202"] = accepted
    paths.update(_job_paths(secured))
    document["tags"].append({"name": "jobs"})


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
