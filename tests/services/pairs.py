# SPDX-License-Identifier: Apache-2.0
"""Types of inputs and of outputs, each at an endpoint of its own, and values of them."""

import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import msgspec
import numpy as np
import pydantic

from servekit import Array, Service, endpoint
from servekit.types import Audio, File, Image, Text
from servekit.worker.inputs.media_leaf import PIXEL, SILENCE


class Fields(msgspec.Struct):
    n: int = 0


class Row(msgspec.Struct, array_like=True):
    n: int = 0


@dataclass
class Data:
    n: int = 0


class Typed(TypedDict, total=False):
    n: int


class Pair(NamedTuple):
    x: int
    y: float


class Model(pydantic.BaseModel):
    n: int = 0


class Root(pydantic.RootModel[str]):
    pass


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Colour(enum.Enum):
    RED = "text"


class Level(enum.IntEnum):
    LOW = 1


class Photo(msgspec.Struct):
    image: Image
    caption: Text = ""


def array(dtype, *shape):
    return Annotated[np.ndarray, Array(dtype, shape)]


VALUE = {"n": 1}
FILE = {"b64": PIXEL}
#: a type, and JSON of an input of it
INPUTS = {
    "any": (Any, VALUE),
    "int": (int, 1),
    "float": (float, 1.5),
    "bool": (bool, True),
    "none": (None | int, None),
    "str": (str, "text"),
    "short str": (Annotated[str, msgspec.Meta(max_length=4)], "text"),
    "text": (Text, "text"),
    "maybe str": (str | None, None),
    "str or int": (str | int, 1),
    "literal": (Literal["text"], "text"),
    "numbers literal": (Literal[1, 2], 1),
    "enum": (Colour, "text"),
    "int enum": (Level, 1),
    "new type": (NewType("Name", str), "text"),
    "bytes": (bytes, "YWJj"),
    "date": (datetime.date, "2026-01-31"),
    "moment": (datetime.datetime, "2026-01-31T12:00:00Z"),
    "uuid": (uuid.UUID, "00000000-0000-4000-8000-000000000000"),
    "decimal": (decimal.Decimal, "1.5"),
    "list": (list, [1]),
    "list of int": (list[int], [1]),
    "list of str": (list[str], ["a"]),
    "tuple": (tuple[int, str], [1, "a"]),
    "set": (set[int], [1]),
    "dict": (dict, VALUE),
    "dict of int": (dict[str, int], VALUE),
    "struct": (Fields, VALUE),
    "maybe struct": (Fields | None, VALUE),
    "array-like struct": (Row, [1]),
    "dataclass": (Data, VALUE),
    "typed dict": (Typed, VALUE),
    "named tuple": (Pair, [1, 2.0]),
    "model": (Model, VALUE),
    "root model": (Root, "text"),
    "root model of a list": (Numbers, [1]),
    "image": (Image, FILE),
    "maybe image": (Image | None, FILE),
    "audio": (Audio, {"b64": SILENCE}),
    "file": (File, FILE),
    "photo": (Photo, {"image": FILE}),
    "array": (array("float32", 2), [1, 2]),
    "open array": (array("int64", -1, 2), [[1, 2]]),
    "very open array": (array("float64", -1, -1), [[1, 2]]),
    "scalar": (array("float32"), 1.0),
    "array of str": (array("str", -1), ["a"]),
    "scalar str": (array("str"), "a"),
    "array of bool": (array("bool", 2), [True, False]),
    "pixels": (array("uint8", -1, -1, 3), [[[1, 2, 3]]]),
}


#: a type, and an output of it
OUTPUTS = {
    "int": (int, 1),
    "float": (float, 1.5),
    "bool": (bool, True),
    "none": (None, None),
    "str": (str, "text"),
    "maybe str": (str | None, "text"),
    "literal": (Literal["text"], "text"),
    "enum": (Colour, Colour.RED),
    "int enum": (Level, Level.LOW),
    "bytes": (bytes, b"abc"),
    "date": (datetime.date, datetime.date(2026, 1, 31)),
    "uuid": (uuid.UUID, uuid.UUID(int=1)),
    "decimal": (decimal.Decimal, decimal.Decimal("1.5")),
    "list of int": (list[int], [1]),
    "list of lists": (list[list[float]], [[1.0]]),
    "list of str": (list[str], ["a"]),
    "list of structs": (list[Fields], [Fields()]),
    "list of arrays": (list[np.ndarray], [np.float32([1])]),
    "tuple of numbers": (tuple[int, ...], (1, 2)),
    "tuple": (tuple[int, str], (1, "a")),
    "set": (set[int], {1}),
    "dict": (dict, VALUE),
    "struct": (Fields, Fields()),
    "array-like struct": (Row, Row()),
    "dataclass": (Data, Data()),
    "typed dict": (Typed, VALUE),
    "named tuple": (Pair, Pair(1, 2.0)),
    "model": (Model, Model()),
    "numpy array": (np.ndarray, np.zeros((1, 1, 3), np.uint8)),
    "numpy number": (np.float32, np.float32(1)),
    "array": (array("float32", 2), np.float32([1, 2])),
    "pixels": (array("uint8", -1, -1, 3), np.zeros((1, 1, 3), np.uint8)),
    "no pixels": (array("uint8", -1, 4), np.zeros((1, 4), np.uint8)),
    "texts": (array("str", -1), np.array(["a"], object)),
    "new type": (NewType("Name", str), "text"),
}


def taker(given):
    def take(self, batch: list[given]):
        return [0] * len(batch)

    return take


def giver(got, output):
    def give(self, batch) -> list[got]:
        return [output] * len(batch)

    return give


def name_of(label):
    """Return the endpoint of a type."""
    return label.replace(" ", "_")


MEMBERS = {f"take_{name_of(label)}": taker(given) for label, (given, _) in INPUTS.items()} | {
    f"give_{name_of(label)}": giver(*pair) for label, pair in OUTPUTS.items()
}
Pairs = type(
    "Pairs",
    (Service,),
    {name: endpoint(name)(method) for name, method in MEMBERS.items()}
    | {"predict": lambda self, batch: batch, "__module__": __name__},
)
