# SPDX-License-Identifier: Apache-2.0
"""Schemas in words."""

from typing import Annotated, Literal

import msgspec
import pytest

from servekit.description.interface import TensorType
from servekit.description.summaries import summarize, summarize_fields, summarize_tensor


class Parcel(msgspec.Struct):
    weight_kg: Annotated[float, msgspec.Meta(gt=0, le=30)]
    to: Literal["DE", "FR"]
    express: bool = False
    note: str | None = None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "whole number"),
        (str | None, "text or nothing"),
        (list[float], "list of number"),
        (list[Parcel], "list of Parcel"),
        (Annotated[list[int], msgspec.Meta(min_length=2)], "list of whole number, at least 2"),
        (
            Annotated[str, msgspec.Meta(min_length=1, max_length=9)],
            "text, at least 1 character, at most 9 characters",
        ),
        (tuple[int, str], "list, at least 2, at most 2"),
        (dict[str, int], "object"),
        (msgspec.Raw, "anything"),
    ],
)
def test_a_type_in_words(kind, words):
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")

    assert summarize(schema, parts) == words


def test_an_object_is_told_field_by_field():
    (schema,), parts = msgspec.json.schema_components([Parcel], ref_template="#/$defs/{name}")

    assert summarize_fields(schema, parts) == [
        ("weight_kg", "number, > 0, <= 30"),
        ("to", '"DE" | "FR"'),
        ("express", "boolean, optional"),
        ("note", "text or nothing, optional"),
    ]


def test_a_tensor_in_words():
    assert summarize_tensor(TensorType("x", "int8", [-1, 3])) == "int8[any, 3]"


def test_an_input_that_is_a_file_is_told_as_one():
    content = {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/*"}
    schema = {"type": "object", "properties": {"b64": content, "name": {"type": "string"}}}

    assert summarize_fields(schema, {}) == [("", "file, image/*")]
