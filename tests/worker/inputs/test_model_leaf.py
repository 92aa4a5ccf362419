# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - tables of values read better unbroken
"""Pydantic models as inputs and outputs."""

import datetime
from typing import Annotated, Literal

import msgpack
import msgspec
import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    computed_field,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from servekit import InputError
from tests.worker.batches import answer, loaded, prediction, service_of


class Point(BaseModel):
    x: float
    y: Annotated[int, Field(ge=0)] = 0


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    points: list[Point] = []
    kind: Literal["a", "b"] = Field("a", alias="type")

    @field_validator("text")
    @classmethod
    def is_said(cls, text):
        if not text:
            raise ValueError("nothing is said")
        return text.strip()


class Span(BaseModel):
    model_config = ConfigDict(strict=True)

    day: datetime.date
    low: int
    high: int

    @model_validator(mode="after")
    def is_upright(self):
        if self.low > self.high:
            raise ValueError("low is over high")
        return self


class Words(RootModel[list[str]]):
    pass


class Holder(msgspec.Struct):
    name: str
    query: Query
    more: list[Query | None] = []


@pydantic_dataclass
class Parcel:
    weight: float = Field(gt=0)
    to: str = Field("DE", min_length=2)
    tags: list[str] = Field(default_factory=list)

    @field_validator("to")
    @classmethod
    def is_upper(cls, to):
        if not to.isupper():
            raise ValueError("not in capitals")
        return to


class Load(msgspec.Struct):
    parcels: list[Parcel]


class Node(BaseModel):
    value: int
    inner: "list[Node]" = []


def typed(given, got=str):
    def predict(self, batch):
        return [f"{type(value).__name__} {value}" for value in batch]

    predict.__annotations__ = {"batch": list[given], "return": list[got]}
    return service_of(predict)


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (Query, {"text": " hi "}, "Query text='hi' points=[] kind='a'"),
        (Query, {"text": "a", "type": "b", "points": [{"x": 1}]}, "Query text='a' points=[Point(x=1.0, y=0)] kind='b'"),
        (Words, ["a", "b"], "Words root=['a', 'b']"),
        (Query | None, None, "NoneType None"),
        (list[Point], [{"x": 1}, {"x": 2}], "list [Point(x=1.0, y=0), Point(x=2.0, y=0)]"),
        (dict[str, Point], {"a": {"x": 1}}, "dict {'a': Point(x=1.0, y=0)}"),
        (Holder, {"name": "n", "query": {"text": "t"}, "more": [None]},
         "Holder Holder(name='n', query=Query(text='t', points=[], kind='a'), more=[None])"),
        (Parcel, {"weight": "2"}, "Parcel Parcel(weight=2.0, to='DE', tags=[])"),
        (Load, {"parcels": [{"weight": 1, "to": "FR", "tags": ["a"]}]},
         "Load Load(parcels=[Parcel(weight=1.0, to='FR', tags=['a'])])"),
        (Node, {"value": 1, "inner": [{"value": 2}]}, "Node value=1 inner=[Node(value=2, inner=[])]"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
@pytest.mark.parametrize("codec", [msgspec.json.encode, msgpack.packb], ids=["json", "msgpack"])
def test_inputs_become_models_wherever_the_annotation_has_them(given, value, expected, codec):
    content_type = "application/json" if codec is msgspec.json.encode else "application/msgpack"
    _, body = answer(typed(given), codec(value), content_type, "application/json")

    assert msgspec.json.decode(body) == {"prediction": expected}


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (Query, {"text": "", "points": [{"y": -1}, {"x": "b"}], "type": "c", "z": 1},
         {"text": "nothing is said", "points[0].x": "missing",
          "points[0].y": "input should be greater than or equal to 0",
          "points[1].x": "input should be a valid number, unable to parse string as a number",
          "type": "input should be 'a' or 'b'", "z": "unknown field"}),
        (Query, 5, {"": "input should be an object"}),
        (list[Query], [5], {"[0]": "input should be an object"}),
        (Holder, {"name": 1, "query": {"points": 1}, "more": [{"text": 1}]},
         {"name": "expected str, got int", "query.text": "missing",
          "query.points": "input should be a valid array", "more[0].text": "input should be a valid string"}),
        (Span, {"day": "2026-01-01", "low": 2, "high": 1}, {"": "low is over high"}),
        (Parcel, {"weight": 0, "to": "de", "tags": [1], "z": 1},
         {"weight": "input should be greater than 0", "to": "not in capitals",
          "tags[0]": "input should be a valid string"}),
        (Load, {"parcels": [{"weight": 1}, {"to": "D"}]},
         {"parcels[1].weight": "missing", "parcels[1].to": "string should have at least 2 characters"}),
    ],
    ids=["every field", "no object", "no object inside", "inside a Struct", "the whole", "a dataclass", "dataclasses inside"],
)  # fmt: skip
def test_every_field_that_is_wrong_is_named(given, value, expected):
    name, body = answer(typed(given), value)

    assert name == "InputError"
    errors = msgspec.json.decode(body)["errors"]
    assert {each["field"]: each["message"] for each in errors} == expected
    assert len(errors) == len(expected)


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("media_type", ["application/json", "application/msgpack"])
def test_a_strict_model_takes_the_texts_of_dates(is_inside, media_type):
    span = {"day": "2026-01-31", "low": 1, "high": 2.0}
    service, value = (typed(list[Span]), [span]) if is_inside else (typed(Span), span)
    encode = msgspec.json.encode if media_type == "application/json" else msgpack.packb
    _, body = answer(service, encode(value), media_type, "application/json")

    assert b"day=datetime.date(2026, 1, 31)" in body
    assert b"high=2" in body


def test_a_strict_model_tells_what_is_wrong_with_a_date():
    name, body = answer(typed(list[Span]), [{"day": "2026-13-31", "low": "1", "high": 2}])

    assert name == "InputError"
    assert {each["field"] for each in msgspec.json.decode(body)["errors"]} == {"[0].day", "[0].low"}
    assert b"month value is outside expected range" in body


@pytest.mark.parametrize("body", [b"", b'{"x": NaN}', b'{"x": 1} 2', b'{"x":[1', b"[" * 9999])
def test_what_is_no_json_is_malformed_for_a_model_too(body):
    assert answer(typed(Point), body)[0] == "BodyMalformed"


def test_no_more_than_a_hundred_mistakes_are_told():
    _, body = answer(typed(Query), {"text": "a", "points": [{}] * 1000})

    assert len(msgspec.json.decode(body)["errors"]) == 100


def test_outputs_are_written_as_pydantic_writes_json():
    def predict(self, batch: list[int]) -> list[Span | InputError]:
        day = datetime.date(2026, 1, 31)
        return [Span(day=day, low=1, high=each) if each else InputError("0") for each in batch]

    assert prediction(service_of(predict), 5) == {"day": "2026-01-31", "low": 1, "high": 5}
    assert prediction(service_of(predict), 0) == ("InputError", "0")


def test_models_shape_the_interface():
    interface = loaded(typed(Holder, Query)).interface

    assert interface.input_schema == {"$ref": "#/$defs/Holder"}
    assert interface.output_schema == {"$ref": "#/$defs/Query"}
    assert interface.schema_definitions["Holder"]["properties"]["query"] == {
        "$ref": "#/$defs/Query"
    }
    assert interface.schema_definitions["Query"]["properties"]["points"]["items"] == {
        "$ref": "#/$defs/Point"
    }
    assert interface.schema_definitions["Point"]["required"] == ["x"]
    assert "text/plain" not in interface.produces


class Sized(BaseModel):
    points: list[Point] = []

    @computed_field
    def size(self) -> int:
        return len(self.points)


class Got(BaseModel):
    sized: Sized


def test_what_is_written_otherwise_than_read_is_described_apart():
    interface = loaded(typed(Sized, Got)).interface
    got = interface.schema_definitions["Got-Output"]

    assert interface.output_schema == {"$ref": "#/$defs/Got-Output"}
    assert got["properties"]["sized"] == {"$ref": "#/$defs/Sized-Output"}
    assert list(interface.schema_definitions["Sized-Output"]["properties"]) == ["points", "size"]
    assert list(interface.schema_definitions["Sized"]["properties"]) == ["points"]


def test_the_rules_of_a_dataclass_are_described_and_its_class_stays_what_it_is():
    definitions = loaded(typed(Load)).interface.schema_definitions

    assert definitions["Load"]["properties"]["parcels"]["items"] == {"$ref": "#/$defs/Parcel"}
    assert definitions["Parcel"]["properties"]["weight"]["exclusiveMinimum"] == 0
    assert definitions["Parcel"]["required"] == ["weight"]
    assert type(Parcel.__dataclass_fields__["weight"].default).__name__ == "FieldInfo"


def test_a_model_that_holds_itself_is_described():
    interface = loaded(typed(Node)).interface

    assert interface.input_schema == {"$ref": "#/$defs/Node"}
    assert interface.schema_definitions["Node"]["properties"]["inner"]["items"] == {
        "$ref": "#/$defs/Node"
    }
