# SPDX-License-Identifier: Apache-2.0
"""Inputs to try a model with: they fit what the model declares."""

import datetime
import enum
import uuid
from typing import Annotated, Any, Literal, TypedDict

import jsonschema
import msgspec
import pytest
from msgspec import Meta

from servekit.description.interface import describe
from servekit.description.sample_values import sample_value
from servekit.description.samples import (
    FilledArray,
    SampleFile,
    SampleForm,
    SampleValue,
    sample,
    sample_form,
)
from servekit.ipc.table import Interface

X = {"name": "x", "dtype": "float32", "shape": [-1, 3]}
N = {"name": "n", "dtype": "int8", "shape": []}
T = {"name": "t", "dtype": "str", "shape": [2]}


class Colour(enum.Enum):
    RED = "red"


class Node(msgspec.Struct, tag=True):
    left: "Node | Leaf"
    colour: Colour
    parent: "Node | None" = None


class Leaf(msgspec.Struct, tag=True):
    value: Annotated[float, Meta(gt=0, le=0.5)]


class Choices(TypedDict, total=False):
    mode: Literal["fast", "exact"]
    retries: Annotated[int, Meta(ge=3, multiple_of=2)]


class Chain(msgspec.Struct):
    rest: "Chain | None" = None
    name: str = "end"


@pytest.mark.parametrize(
    "kind",
    [
        *(int, float, str, bool, bytes, None, Any, list[int], dict[str, float], tuple[int, str]),
        *(datetime.date, uuid.UUID, int | None, str | int),
        *(Node, Leaf, Choices, Chain, Colour, list[Node]),
        Annotated[str, Meta(min_length=9)],
        Annotated[str, Meta(max_length=2)],
        Annotated[list[str], Meta(min_length=3)],
        Annotated[int, Meta(lt=-5)],
        Annotated[int, Meta(gt=5)],
        Annotated[float, Meta(ge=2, lt=2.5)],
        Annotated[float, Meta(lt=-7)],
    ],
    ids=str,
)
def test_what_is_made_of_a_schema_fits_it(kind):
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    value = sample_value(schema, parts)

    jsonschema.validate(value, {**schema, "$defs": parts})
    assert value is not None or kind in (None, Any)
    msgspec.convert(value, kind)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"$ref": "#/$defs/Gone"},
        {"type": "unknown"},
        {"$ref": "#/$defs/Loop"},
        {"anyOf": [{"$ref": "#/$defs/Loop"}]},
    ],
)
def test_a_schema_that_cannot_be_filled_does_no_harm(schema):
    loop = {"type": "object", "properties": {"x": {"$ref": "#/$defs/Loop"}}, "required": ["x"]}

    assert sample_value(schema, {"Loop": loop}) in (None, {})


@pytest.mark.parametrize(
    ("manifest", "known", "found"),
    [
        pytest.param({"examples": [{"input": 7}, {"input": 8}]}, None, SampleValue(7), id="one"),
        pytest.param(
            {"examples": [{"input_file": "a.png"}], "signature": {"inputs": [X]}}, None,
            SampleFile("a.png", "image/png"), id="a file, by its name",
        ),
        pytest.param(
            {"examples": [{"input_file": "a", "content_type": "text/plain"}]}, None,
            SampleFile("a", "text/plain"), id="a file, as the manifest says",
        ),
        pytest.param(
            {"signature": {"inputs": [X, N, T]}}, None,
            SampleValue({"x": FilledArray("float32", (2, 3), 0.5), "n": 1, "t": ["text", "text"]}),
            id="a signature",
        ),
        pytest.param(
            {},
            Interface(input_schema={"type": "boolean"}, consumes=["application/json"]),
            SampleValue(True),
            id="types",
        ),
        pytest.param({}, Interface(), None, id="a service that takes anything"),
        pytest.param({}, None, None, id="nothing is known"),
    ],
)  # fmt: skip
def test_the_best_input_there_is(manifest, known, found):
    assert sample(describe({"name": "m", **manifest}, known)) == found


B64 = {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/*"}
IMAGE = {"type": "object", "properties": {"b64": B64}, "required": ["b64"]}


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        pytest.param(IMAGE, SampleForm({"image": "image.png"}, {}, {}), id="a file"),
        pytest.param(
            {"type": "array", "items": IMAGE},
            SampleForm({"image": "image.png"}, {}, {}, frozenset({"image"})),
            id="files",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": IMAGE, "n": {"type": "integer"}}},
            SampleForm({"a": "a.png"}, {"n": 1}, {"n": "1"}),
            id="a file and a number",
        ),
        pytest.param({"type": "integer"}, None, id="no form"),
    ],
)
def test_forms_have_an_upload_for_each_file(schema, form):
    known = Interface(input_schema=schema, consumes=["multipart/form-data"])

    assert sample_form(describe({"name": "m"}, known)) == form
