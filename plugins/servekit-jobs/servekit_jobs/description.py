# SPDX-License-Identifier: Apache-2.0
"""Jobs in ``/openapi.json``: how a prediction becomes one, and where its result is fetched."""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["jobs_fragment"]

TEXT: Final = {"type": "string"}
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "status": {"type": "string", "enum": ["pending", "completed", "failed"]},
        "model": TEXT,
        "url": TEXT,
        "result_url": TEXT,
        "result_status": {"type": "integer", "description": "Of the result, once there is one."},
    },
    "required": ["id", "status", "model", "url", "result_url"],
}
ID: Final = {"name": "id", "in": "path", "required": True, "schema": TEXT}
PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "description": "``respond-async`` to fetch the result later; with ``wait=N`` only if it takes "
    "more than N seconds.",
    "schema": TEXT,
}
WAIT: Final = {
    "name": "Prefer",
    "in": "header",
    "description": "``wait=N``: respond when the job is done, or after N seconds.",
    "schema": TEXT,
}
LOCATION: Final = {"description": "The path of the job.", "schema": TEXT}
JOB: Final = {"application/json": {"schema": {"$ref": "#/components/schemas/Job"}}}
REFUSED: Final = {"$ref": "#/components/responses/Refused"}
FAILED: Final = {"$ref": "#/components/responses/Failed"}
TAG: Final = {
    "name": "jobs",
    "description": "Predictions whose results are fetched later. Their own errors are 404 Unknown "
    "job, 429 Too many jobs, 503 Job lost and 507 No room for the answer.",
}


def jobs_fragment(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what jobs add to an OpenAPI *document*."""
    is_secured = "token" in document["components"].get("securitySchemes", {})
    accepted = {
        "description": "A job, whose result can be fetched later",
        "headers": {"Location": LOCATION},
        "content": JOB,
    }
    prefer = {"$ref": "#/components/parameters/Prefer"}
    submitted = {"post": {"parameters": [prefer], "responses": {"202": accepted}}}
    paths = {path: submitted for path, known in document["paths"].items() if "post" in known}
    return {
        "components": {"schemas": {"Job": SCHEMA}, "parameters": {"Prefer": PREFER}},
        "paths": paths | _job_paths({"security": [{"token": []}]} if is_secured else {}),
        "tags": [TAG],
    }


def _job_paths(secured: dict[str, Any]) -> dict[str, Any]:
    """Return what can be done with a job."""
    read = {"tags": ["jobs"], "parameters": [ID, WAIT], **secured}
    state = read | {
        "operationId": "job",
        "summary": "The state of a job",
        "responses": {"200": {"description": "The state", "content": JOB}, "4XX": REFUSED},
    }
    delete = {
        "operationId": "job_delete",
        "summary": "Cancel a job, or delete its result",
        "tags": ["jobs"],
        "parameters": [ID],
        "responses": {"204": {"description": "The job is deleted"}, "4XX": REFUSED},
        **secured,
    }
    result = read | {
        "operationId": "job_result",
        "summary": "The result of a job, as the prediction would have responded",
        "responses": {
            "200": {"description": "The prediction", "content": {"*/*": {}}},
            "202": {"description": "The job is not done yet", "content": JOB},
            "4XX": REFUSED,
            "5XX": FAILED,
        },
    }
    return {"/jobs/{id}": {"get": state, "delete": delete}, "/jobs/{id}/result": {"get": result}}
