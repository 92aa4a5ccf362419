# SPDX-License-Identifier: Apache-2.0
"""Bodies in OpenAPI 3.1: an entry for each media type that a model reads or writes."""

from typing import Any, Final

import msgspec

from servekit.description.forms import BINARY, TEXT, form_schema
from servekit.description.interface import (
    JSON,
    MAX_EXAMPLE_BYTES,
    MULTIPART,
    ExampleRequest,
    PathDescription,
)
from servekit.description.sample_values import sample_value
from servekit.description.schemas import (
    Schema,
    answer,
    answer_value,
    input_schema,
    instances,
    predictions,
)
from servekit.ipc.response_style import ResponseStyle, StreamStyle
from servekit.ipc.stream_formats import EVENT_STREAM, STREAM_FORMATS

__all__ = ["REFERENCES", "answer_content", "request_content"]

INSTANCES_FORM: Final[Schema] = {
    "type": "object",
    "properties": {"instances": {**TEXT, "contentMediaType": JSON}},
    "required": ["instances"],
}
REFERENCES: Final = "#/components/schemas/"


def request_content(model: PathDescription) -> dict[str, Any]:
    """Return the ``content`` of the body of a prediction, the best media type first."""
    schema = instances(model, REFERENCES) if model.instances else input_schema(model, REFERENCES)
    examples = _inputs(model)
    # media types of examples come first: image/png is more useful than image/*
    sent_as = [example.media_type for example in model.examples]
    return {
        media_type: _input(model, media_type, schema, examples)
        for media_type in dict.fromkeys([*sent_as, *model.consumes])
    }


def answer_content(model: PathDescription) -> dict[str, Any]:
    """Return the ``content`` of the answer to a prediction."""
    if model.instances:
        return {JSON: {"schema": predictions(model, REFERENCES)}}
    schema = answer(model, REFERENCES)
    examples = {
        name: {"value": answer_value(model, example.output)}
        for name, example in _named(model)
        if example.output is not None
    }
    content = {name: _value(name, schema, examples) for name in model.produces}
    for media_type in STREAM_FORMATS.keys() & content:
        words = _stream_words(media_type, model.style)
        content[media_type] = {"schema": {**TEXT, "description": words}}
    return content


def _inputs(model: PathDescription) -> dict[str, Any]:
    """Return the inputs of the model's examples, or one that is made from the schema.

    Without it Swagger UI makes one from the bounds, such as a float32 of -3.4e38.
    """
    own = {
        name: {"value": example.input}
        for name, example in _named(model)
        if example.input is not None
    }
    if model.instances:
        own = {name: {"value": {"instances": [each["value"]]}} for name, each in own.items()}
    if own or not (model.input_schema or model.signature.inputs):
        return own
    value = sample_value(model.input_schema or input_schema(model, REFERENCES), model.definitions)
    if model.instances:
        value = {"instances": [value]}
    is_short = len(msgspec.json.encode(value)) <= MAX_EXAMPLE_BYTES
    return {"made-of-the-schema": {"value": value}} if is_short else {}


def _input(
    model: PathDescription, media_type: str, schema: Schema, examples: dict[str, Any]
) -> dict[str, Any]:
    if media_type == MULTIPART:
        return {"schema": INSTANCES_FORM if model.instances else form_schema(model)}
    return _value(media_type, schema, examples)


def _value(media_type: str, schema: Schema, examples: dict[str, Any]) -> dict[str, Any]:
    if "json" in media_type:
        return {"schema": schema, "examples": examples} if examples else {"schema": schema}
    if "msgpack" in media_type:
        return {"schema": schema}
    return {"schema": TEXT if media_type.startswith("text/") else BINARY}


def _stream_words(media_type: str, style: ResponseStyle) -> str:
    asked = f'It is asked for by `"{style.stream.field}": true`, or by Accept. '
    return (asked if style.stream.field else "") + (
        _event_words(style.stream) if media_type == EVENT_STREAM else _line_words(style)
    )


def _event_words(stream: StreamStyle) -> str:
    data = "the text of an output that is a string, and JSON otherwise" if stream.raw else "JSON"
    last = "The last event has the type end, or error with a problem."
    if stream.end is not None:
        end = f"The data of the last event is `{stream.end}`." if stream.end else ""
        last = f"{end} After a failure the last event has the type error, with a problem.".lstrip()
    return (
        f"An event for each output as soon as it exists: its data is {data}, an element of the "
        f"list of a response without streaming. {last}"
    )


def _line_words(style: ResponseStyle) -> str:
    line = "the output" if style.is_bare else '{"output": ...}'
    return (
        f"A line for each output as soon as it exists: {line}, an element of the list of a "
        'response without streaming. After a failure the last line is {"error": a problem}.'
    )


def _named(model: PathDescription) -> list[tuple[str, ExampleRequest]]:
    return [(f"example-{number}", each) for number, each in enumerate(model.examples, 1)]
