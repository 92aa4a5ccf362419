# SPDX-License-Identifier: Apache-2.0
"""Arrays, files and models wherever an annotation can have them: aliases, generics and unions."""

import dataclasses
from typing import (
    Annotated,
    Final,
    Generic,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import attrs
import msgspec
import numpy as np
import pytest
import typing_extensions
from msgspec import UNSET, Meta, Struct, UnsetType
from pydantic import BaseModel

from servekit import Array
from servekit.types import File
from tests.worker.batches import answer, loaded, prediction, service_of

T = TypeVar("T")
Vector = Annotated[np.ndarray, Array("float32", (-1,))]
FILE = {"b64": "YQ=="}


class Model(BaseModel):
    x: int


class Page(Struct, Generic[T]):
    items: list[T]
    first: T | None = None


@dataclasses.dataclass
class Box(Generic[T]):
    item: "T"
    name: str = ""


@dataclasses.dataclass
class Boxes(Box[list[T]], Generic[T]):
    more: dict[str, T] = dataclasses.field(default_factory=dict)


@attrs.define
class Holder(Generic[T]):
    item: "T"
    files: list[File] = attrs.Factory(list)


class Entry(TypedDict, Generic[T]):
    item: NotRequired[T]


class Pair(NamedTuple, Generic[T]):
    item: T
    name: str


class Older(typing_extensions.TypedDict):
    item: Vector


class Circle(Struct, tag=True):
    at: Vector


class Word(Struct, tag=True):
    text: str
    image: File | None = None


class Shapes(Struct, tag="shapes"):
    inner: list["Circle | Word | Shapes"]


class Row(Struct, tag=1, array_like=True):
    at: Vector


class Gap(Struct, tag=2, array_like=True):
    size: int


class Partial(Struct):
    at: Vector | UnsetType = UNSET
    files: list[File] | UnsetType | None = UNSET
    model: Model | UnsetType = UNSET


class Fixed(Struct):
    at: Final[Vector]


def typed(given):
    def predict(self, batch):
        return [shown(value) for value in batch]

    predict.__annotations__ = {"batch": list[given]}
    return service_of(predict)


def shown(value):
    """Return *value* as JSON may show it: an array as its elements, a file as its content."""
    if isinstance(value, np.ndarray):
        return [value.dtype.name, *value.ravel().tolist()]
    if isinstance(value, File):
        return value.content.decode()
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if isinstance(value, BaseModel):
        return value.model_dump()
    if attrs.has(type(value)):
        return shown(attrs.asdict(value, recurse=False))
    fields = getattr(value, "__struct_fields__", getattr(value, "__dataclass_fields__", ()))
    held = ((name, getattr(value, name)) for name in fields)
    return {name: shown(each) for name, each in held if each is not UNSET} or value


def mistakes(given, value):
    """Return what is wrong with *value*, by field."""
    name, body = answer(typed(given), value)
    assert name == "InputError"
    return {each["field"]: each["message"] for each in msgspec.json.decode(body)["errors"]}


F = "float32"
GENERIC = [
    (Page[Vector], {"items": [[1, 2]], "first": [3]},
     {"items": [[F, 1.0, 2.0]], "first": [F, 3.0]}),
    (Page[Model], {"items": [{"x": 1}]}, {"items": [{"x": 1}], "first": None}),
    (Page[Box[Vector]], {"items": [{"item": [1]}]},
     {"items": [{"item": [F, 1.0], "name": ""}], "first": None}),
    (Box[Vector], {"item": [1]}, {"item": [F, 1.0], "name": ""}),
    (Boxes[Vector], {"item": [[1]], "more": {"a": [2]}},
     {"item": [[F, 1.0]], "name": "", "more": {"a": [F, 2.0]}}),
    (Holder[Vector], {"item": [1]}, {"item": [F, 1.0], "files": []}),
    (Holder[Model], {"item": {"x": 1}, "files": [FILE]}, {"item": {"x": 1}, "files": ["a"]}),
    (Entry[Vector], {"item": [1]}, {"item": [F, 1.0]}),
    (Pair[Vector], [[1], "a"], [[F, 1.0], "a"]),
]  # fmt: skip
AROUND = [
    (NewType("V", Vector), [1], [F, 1.0]),
    (NewType("M", Model), {"x": 1}, {"x": 1}),
    (NewType("P", File), FILE, "a"),
    (NewType("O", NewType("P", File) | None), FILE, "a"),
    (dict[str, NewType("P", File)], {"a": FILE}, {"a": "a"}),
    (NewType("L", list[Vector]), [[1]], [[F, 1.0]]),
    (Annotated[NewType("D", dict[str, Vector]), Meta(description="d")], {"a": [1]},
     {"a": [F, 1.0]}),
    (Fixed, {"at": [1]}, {"at": [F, 1.0]}),
    (Older, {"item": [1]}, {"item": [F, 1.0]}),
]  # fmt: skip
UNIONS = [
    (Circle | Word, {"type": "Circle", "at": [1]}, {"at": [F, 1.0]}),
    (Circle | Word, {"type": "Word", "text": "a", "image": FILE}, {"text": "a", "image": "a"}),
    (Circle | Word | None, {"type": "Circle", "at": [1]}, {"at": [F, 1.0]}),
    (list[Circle | Word], [{"type": "Word", "text": "a"}, {"type": "Circle", "at": []}],
     [{"text": "a", "image": None}, {"at": [F]}]),
    (Shapes, {"inner": [{"type": "shapes", "inner": [{"type": "Circle", "at": [1]}]}]},
     {"inner": [{"inner": [{"at": [F, 1.0]}]}]}),
    (Row | Gap, [1, [2, 3]], {"at": [F, 2.0, 3.0]}),
    (Row | Gap, [2, 3], {"size": 3}),
    (Row, [1, [2, 3]], {"at": [F, 2.0, 3.0]}),
    (Circle | list[Vector] | int, [[1]], [[F, 1.0]]),
    (Circle | list[Vector] | int, {"type": "Circle", "at": [1]}, {"at": [F, 1.0]}),
    (Circle | list[Vector] | int, 5, 5),
    (dict[str, Vector] | str, {"a": [1]}, {"a": [F, 1.0]}),
    (Partial, {"at": [1], "files": [FILE], "model": {"x": 1}},
     {"at": [F, 1.0], "files": ["a"], "model": {"x": 1}}),
    (Partial, {"files": None}, {"files": None}),
    (Page[Circle | Word], {"items": [{"type": "Circle", "at": [1]}]},
     {"items": [{"at": [F, 1.0]}], "first": None}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [*GENERIC, *AROUND, *UNIONS],
    ids=lambda value: str(value)[:50],
)
@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_leaves_are_made_wherever_the_annotation_has_them(given, value, expected, codec):
    body = getattr(msgspec, codec).encode(value)
    _, text = answer(typed(given), body, f"application/{codec}", "application/json")

    assert msgspec.json.decode(text) == {"prediction": expected}


def test_a_long_array_of_a_generic_struct_is_read_like_any_other():
    values = [0.5] * 5000

    assert prediction(typed(Box[Vector]), {"item": values})["item"] == [F, *values]


class Optional(TypedDict):
    a: str
    b: NotRequired[int]


class Needed(TypedDict, total=False):
    a: Required[list[Optional]]


class Texts(TypedDict):
    a: "Required[int]"
    b: "NotRequired[int]"


class Holder(Struct):
    inner: Optional


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (Optional, {"a": "x", "b": "y"}, {"b": "expected int, got str"}),
        (Optional, {"b": 1}, {"a": "missing"}),
        (Optional, {"a": 1, "b": "y"},
         {"a": "expected str, got int", "b": "expected int, got str"}),
        (Needed, {}, {"a": "missing"}),
        (Needed, {"a": [{"a": 1}]}, {"a[0].a": "expected str, got int"}),
        (list[Optional], [{"a": "x"}, {"a": 1}], {"[1].a": "expected str, got int"}),
        (Holder, {"inner": {"b": 1}}, {"inner.a": "missing"}),
        (Texts, {"a": "x"}, {"a": "expected int, got str"}),
        (Entry[Vector], {"item": ["a"]}, {"item[0]": "'a' is not float32"}),
        (Page[Vector], {"items": [["a"], [1]], "first": 1},
         {"items[0][0]": "'a' is not float32", "first": "1 is not an array of shape [-1]"}),
        (Box[int], {"item": "a", "name": 1},
         {"item": "expected int, got str", "name": "expected str, got int"}),
        (Circle | Word, {"type": "Circle", "at": ["a"]}, {"at[0]": "'a' is not float32"}),
        (Circle | Word, {"type": "Word", "text": 1, "image": 5},
         {"text": "expected str, got int",
          "image": 'expected a file: a part of a form, or {"b64": ...}'}),
        (Circle | Word, {"type": "Line"}, {"type": "invalid value 'Line'"}),
        (Circle | Word, {"type": ["Circle"]}, {"type": "expected str, got list"}),
        (Circle | Word, {"at": [1]}, {"type": "missing"}),
        (Circle | Word, [1], {"": "expected object, got array"}),
        (Row | Gap, [1, ["a"]], {"[1][0]": "'a' is not float32"}),
        (Row | Gap, [], {"": "expected array of at least length 1, got 0"}),
        (Partial, {"at": None}, {"at": "null is not an array of shape [-1]"}),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_what_is_wrong_is_named_there_too(given, value, expected):
    assert mistakes(given, value) == expected


def test_an_array_of_another_name_may_be_the_whole_body():
    consumes = loaded(typed(NewType("V", Vector))).interface.consumes

    assert {"application/x-npy", "application/octet-stream"} <= set(consumes)


def test_a_model_of_another_name_is_described():
    interface = loaded(typed(NewType("M", Model))).interface

    assert interface.input_schema == {"$ref": "#/$defs/Model"}
    assert interface.schema_definitions["Model"]["required"] == ["x"]
