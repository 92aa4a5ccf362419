# SPDX-License-Identifier: Apache-2.0
"""The description of a model, from the server's ``/openapi.json``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from servekit_client.answers import JSON, Answer, member
from servekit_client.errors import AnswerMalformed, NotFound

__all__ = ["Description", "description"]

REFERENCES: Final = "#/components/schemas/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The inputs and outputs of a model."""

    name: str
    text: str  #: for people
    consumes: list[str]  #: media types, best first
    produces: list[str]
    input_schema: dict[str, Any]  #: JSON Schema; ``{}`` takes anything
    output_schema: dict[str, Any]
    examples: list[Any]  #: inputs, as JSON, that the model is known to answer


def description(answer: Answer, model: str) -> Description:
    """Return what *answer*, the ``/openapi.json``, says of *model*.

    :raises NotFound: nothing.
    """
    try:
        return _described(answer, model)
    except (KeyError, TypeError, AttributeError) as error:
        raise AnswerMalformed(
            detail=f"no OpenAPI: {error!r}", request_id=answer.request_id
        ) from error


def _described(answer: Answer, model: str) -> Description:
    path = member(answer, "paths").get(f"/{model}/predict")
    if path is None:
        raise NotFound(detail=model, request_id=answer.request_id)
    parts = member(answer, "components")["schemas"]
    operation = path["post"]
    taken = operation["requestBody"]["content"]
    given = operation["responses"]["200"]["content"]
    output = given.get(JSON, {}).get("schema", {})
    if operation.get("x-servekit-envelope", True):
        output = output.get("properties", {}).get("prediction", {})
    return Description(
        name=model,
        text=operation["description"],
        consumes=list(taken),
        produces=list(given),
        input_schema=_alone(taken.get(JSON, {}).get("schema", {}), model, parts),
        output_schema=_alone(output, model, parts),
        examples=[each["value"] for each in taken.get(JSON, {}).get("examples", {}).values()],
    )


def _alone(schema: Mapping[str, Any], model: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return *schema* with what it refers to inside, so that it says everything by itself."""
    if REFERENCES not in json.dumps(schema):
        return dict(schema)
    own = {name: part for name, part in parts.items() if name.startswith(f"{model}.")}
    text = json.dumps({**schema, "$defs": own})
    moved: dict[str, Any] = json.loads(text.replace(f'"{REFERENCES}', '"#/$defs/'))
    return moved
