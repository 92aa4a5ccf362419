# SPDX-License-Identifier: Apache-2.0
"""Arrays in annotations: ``Annotated[np.ndarray, Array(dtype, shape)]``."""

import io
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypedDict

import msgspec
import numpy as np
import pytest

from servekit import Array
from servekit.worker.codecs.msgpack import codec as msgpack
from tests.worker.batches import answer, loaded, prediction, service_of

Vector = Annotated[np.ndarray, Array("float32", (-1,))]
Pixels = Annotated[np.ndarray, Array("uint8", (2, 2))]
Words = Annotated[np.ndarray, Array("str", (2,))]


class Query(msgspec.Struct, rename="camel"):
    a_vector: Vector
    k: int = 1
    pixels: Pixels | None = None

    def __post_init__(self):
        if not len(self.a_vector):
            raise ValueError("aVector: is empty")


class Frozen(msgspec.Struct, frozen=True, array_like=True):
    vector: Vector
    k: int


@dataclass(frozen=True)
class Point:
    at: Vector


class Named(TypedDict, total=False):
    at: Vector


class Pair(NamedTuple):
    a: Vector
    b: int


class Tree(msgspec.Struct):
    at: Vector
    children: list["Tree"] = []


def typed(given):
    def predict(self, batch):
        return [shown(value) for value in batch]

    predict.__annotations__ = {"batch": list[given]}
    return service_of(predict)


def shown(value):
    """Return *value* as JSON, with the dtype of each array in front of its elements."""
    if isinstance(value, np.ndarray):
        return [value.dtype.name, *value.ravel().tolist()]
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    fields = getattr(value, "__struct_fields__", getattr(value, "__dataclass_fields__", ()))
    return {name: shown(getattr(value, name)) for name in fields} or value


F = "float32"
QUERY = {"a_vector": [F, 1.0, 2.0], "k": 1, "pixels": None}


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (Vector, [1, 2.5], [F, 1.0, 2.5]),
        (Words, ["a", "b"], ["object", "a", "b"]),
        (Query, {"aVector": [1, 2]}, QUERY),
        (Query, {"aVector": [1, 2], "pixels": [[1, 2], [3, 255]]},
         QUERY | {"pixels": ["uint8", 1, 2, 3, 255]}),
        (Frozen, [[1], 2], {"vector": [F, 1.0], "k": 2}),
        (Point, {"at": [1]}, {"at": [F, 1.0]}),
        (Named, {"at": [1]}, {"at": [F, 1.0]}),
        (Named, {}, {}),
        (Pair, [[1], 2], [[F, 1.0], 2]),
        (Vector | None, None, None),
        (list[Vector], [[1], [2, 3]], [[F, 1.0], [F, 2.0, 3.0]]),
        (dict[str, Vector], {"a": [1]}, {"a": [F, 1.0]}),
        (tuple[int, Vector], [1, [2]], [1, [F, 2.0]]),
        (Tree, {"at": [], "children": [{"at": [1]}]},
         {"at": [F], "children": [{"at": [F, 1.0], "children": []}]}),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_lists_become_arrays_wherever_the_annotation_has_them(given, value, expected, codec):
    body = getattr(msgspec, codec).encode(value)
    _, text = answer(typed(given), body, f"application/{codec}", "application/json")

    assert msgspec.json.decode(text) == {"prediction": expected}


def test_arrays_of_msgpack_stay_arrays():
    body = msgpack.encode({"aVector": np.array([1, 2], "float64")})

    assert prediction(typed(Query), body, "application/msgpack") == QUERY


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/x-npy", npy(np.array([1, 2], "float32"))),
        ("application/octet-stream", np.array([1, 2], "<f4").tobytes()),
    ],
)
def test_one_array_may_be_the_whole_body(content_type, body):
    assert prediction(typed(Vector), body, content_type) == [F, 1.0, 2.0]


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (Vector, [1, "a", None], {"[1]": "'a' is not float32"}),
        (Vector, 5, {"": "5 is not an array of shape [-1]"}),
        (Pixels, [[1, 2, 3]], {"": "shape [1, 3], expected [2, 2]"}),
        (Query, {"aVector": [[1]], "k": "b", "pixels": [[0, 256], [-1, 0]]},
         {"aVector": "shape [1, 1], expected [-1]", "k": "expected int, got str",
          "pixels[0][1]": "256 is not uint8"}),
        (Query, {}, {"aVector": "missing"}),
        (Query, {"aVector": []}, {"": "aVector: is empty"}),
        (list[Vector], [[1], ["a"], 5],
         {"[1][0]": "'a' is not float32", "[2]": "5 is not an array of shape [-1]"}),
        (Tree, {"at": [], "children": [{"at": ["a"]}, {}]},
         {"children[0].at[0]": "'a' is not float32", "children[1].at": "missing"}),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_every_field_that_is_wrong_is_named_with_its_first_wrong_element(given, value, expected):
    name, body = answer(typed(given), value)

    assert name == "InputError"
    errors = msgspec.json.decode(body)["errors"]
    assert {each["field"]: each["message"] for each in errors} == expected
    assert len(errors) == len(expected)


def test_arrays_shape_the_interface():
    interface = loaded(typed(Query)).interface
    fields = interface.schema_definitions["Query"]["properties"]

    assert fields["aVector"]["type"] == "array"
    assert fields["aVector"]["items"]["type"] == "number"
    assert "float32 array of shape [-1]" in fields["aVector"]["description"]
    assert fields["pixels"]["anyOf"][0]["maxItems"] == 2
    assert "application/x-npy" not in interface.consumes


def test_a_lone_array_may_come_as_binary():
    consumes = loaded(typed(Vector)).interface.consumes

    assert {"application/json", "application/x-npy", "application/octet-stream"} <= set(consumes)
    assert "image/*" not in consumes


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [("float3", (1,), "unknown dtype 'float3'"), ("int8", (-2,), "an axis is below -1")],
)
def test_what_is_no_declaration_is_refused_where_it_is_written(dtype, shape, message):
    with pytest.raises(ValueError, match=message):
        Array(dtype, shape)
