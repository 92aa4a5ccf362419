# SPDX-License-Identifier: Apache-2.0
"""Parts of a form without a content type are read as the fields of the input say."""

import dataclasses
import datetime
import decimal
import enum
import io
import uuid
from typing import Annotated, Any, Literal, NewType, TypedDict

import msgspec
import numpy as np
import PIL.Image
import pydantic
import pytest

from servekit.types import Array, Audio, File, Image, Text
from tests.worker.batches import answer, loaded, prediction, service_of
from tests.worker.worker_process import item

FORM = "multipart/form-data; boundary=B"
UserId = NewType("UserId", str)


class Colour(enum.Enum):
    RED = "1"
    BLUE = "blue"


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclasses.dataclass
class Plain:
    x: int


class Model(pydantic.BaseModel):
    x: int


def form(*parts):
    """Return a form: the name of each part, its content, and more of its headers if it has them."""
    lines = [
        f'--B\r\nContent-Disposition: form-data; name="{name}"{"".join(more)}\r\n\r\n'.encode()
        + (content if isinstance(content, bytes) else content.encode())
        + b"\r\n"
        for name, content, *more in parts
    ]
    return b"".join(lines) + b"--B--\r\n"


def made(type_, kind="struct"):
    """Return a service whose input has the field ``v`` of *type_*; it answers what came."""
    given = {
        "struct": lambda: msgspec.defstruct("Given", [("v", type_, None)]),
        "dataclass": lambda: dataclasses.make_dataclass("Given", [("v", type_, None)]),
        "mapping": lambda: TypedDict("Given", {"v": type_}),
        "model": lambda: pydantic.create_model("Given", v=(type_, None)),
        "pydantic's dataclass": lambda: pydantic.dataclasses.dataclass(
            dataclasses.make_dataclass("Given", [("v", type_, None)])
        ),
        "values": lambda: dict[str, type_],
        "optional": lambda: msgspec.defstruct("Given", [("v", type_, None)]) | None,
    }[kind]()
    return typed(given)


def typed(given):
    def predict(self, batch):
        return [shown(each["v"] if isinstance(each, dict) else getattr(each, "v", each))
                for each in batch]  # fmt: skip

    predict.__annotations__ = {"batch": list[given]}
    return service_of(predict)


def shown(value):
    """Return *value* as JSON may show it, with files by their sizes."""
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if isinstance(value, Image):
        return list(value.size)
    if isinstance(value, File):
        return [value.name, value.content_type, value.content.decode("latin-1")]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, pydantic.SecretStr):
        return str(value)
    return value.value if isinstance(value, enum.Enum) else value


TEXTS = ["5", "true", "null", "NaN", "1e5", "[1]", '{"a": 1}', '"a"', "", " a ", "line\r\nend", "é"]
KINDS = ["struct", "dataclass", "mapping", "model", "pydantic's dataclass", "values", "optional"]
STRINGS = [
    str,
    str | None,
    Text,
    UserId,
    Annotated[str, msgspec.Meta(max_length=20)],
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type_", STRINGS[:3], ids=str)
def test_a_text_is_a_text_whatever_it_looks_like(kind, type_):
    service = made(type_, kind)
    for text in TEXTS:
        assert prediction(service, form(("v", text)), FORM) == text


@pytest.mark.parametrize("type_", STRINGS, ids=str)
def test_so_is_a_text_of_another_name(type_):
    for text in TEXTS:
        assert prediction(made(type_), form(("v", text)), FORM) == text


VALUES = [
    (int, "5", 5),
    (int | None, "5", 5),
    (int | None, "null", None),
    (float, "5", 5.0),
    (float, "-1.5e3", -1500.0),
    (bool, "true", True),
    (bool | None, "false", False),
    (bytes, "AAAA", "000000"),
    (bytes, "1234", "d76df8"),
    (Any, "5", 5),
    (Any, "text", "text"),
    (list[int], "[1, 2]", [1, 2]),
    (list[int], "1", [1]),
    (list[float] | None, "1", [1.0]),
    (list[str], "5", ["5"]),
    (list[str], '["a", "5"]', ["a", "5"]),
    (list[str], "[draft] 1", ["[draft] 1"]),
    (list[str], "[1]", ["[1]"]),
    (list[Text], '["a"]', ['["a"]']),
    (set[str], "5", ["5"]),
    (tuple[str, ...], "5", ["5"]),
    (list[bool], "true", [True]),
    (tuple[int, str], '[1, "2"]', [1, "2"]),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (Point, '{"x": 1}', {"x": 1, "y": 0}),
    (Point | None, '{"x": 1, "y": 2}', {"x": 1, "y": 2}),
    (list[Point], '{"x": 1}', [{"x": 1, "y": 0}]),
    (list[Point], '[{"x": 1}, {"x": 2}]', [{"x": 1, "y": 0}, {"x": 2, "y": 0}]),
    (Plain, '{"x": 1}', {"x": 1}),
    (Model, '{"x": 1}', {"x": 1}),
    (Colour, "1", "1"),
    (Colour, '"blue"', "blue"),
    (Literal["1", "2"], "1", "1"),
    (Literal[1, 2], "1", 1),
    (int | str, "5", 5),
    (int | str, "five", "five"),
    (str | list[int], "5", "5"),
    (str | list[int], "[5]", [5]),
    (str | Point, "5", "5"),
    (str | Point, '{"x": 1}', {"x": 1, "y": 0}),
    (datetime.date, "2026-01-02", "2026-01-02"),
    (datetime.date, '"2026-01-02"', "2026-01-02"),
    (datetime.datetime, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
    (decimal.Decimal, "1.50", "1.50"),
    (uuid.UUID, "12345678123456781234567812345678", "12345678-1234-5678-1234-567812345678"),
    (Annotated[np.ndarray, Array("float32", (-1,))], "[1, 2]", [1.0, 2.0]),
    (Annotated[np.ndarray, Array("str", ())], "a", "a"),
]


@pytest.mark.parametrize(("type_", "text", "expected"), VALUES, ids=lambda value: str(value)[:40])
def test_a_part_is_what_its_field_is(type_, text, expected):
    assert prediction(made(type_), form(("v", text)), FORM) == expected
    as_plain_text = form(("v", text, "\r\nContent-Type: text/plain; charset=utf-8"))
    assert prediction(made(type_), as_plain_text, FORM) == expected


@pytest.mark.parametrize("kind", ["model", "pydantic's dataclass"])
@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [(int, "5", 5), (list[str], "5", ["5"]), (bool, "true", True), (float | None, "1", 1.0),
     (datetime.date, "2026-01-02", "2026-01-02"), (Model, '{"x": 1}', {"x": 1}),
     (Literal["1"], "1", "1"), (pydantic.SecretStr, "5", "**********")],
    ids=str,
)  # fmt: skip
def test_so_is_a_part_of_a_model(kind, type_, text, expected):
    assert prediction(made(type_, kind), form(("v", text)), FORM) == expected


def test_fields_of_a_model_are_known_by_all_their_names():
    class Named(pydantic.BaseModel):
        v: str = pydantic.Field(alias="Text")
        w: str = pydantic.Field("", validation_alias=pydantic.AliasChoices("w", "W"))

    service = typed(Named)
    assert prediction(service, form(("Text", "5"), ("W", "6")), FORM) == "5"


def test_several_parts_of_one_name_are_a_list_of_what_its_elements_are():
    parts = form(("v", "1"), ("v", "[2]"), ("v", '"3"'))

    assert prediction(made(list[str]), parts, FORM) == ["1", "[2]", '"3"']
    assert prediction(made(list[int]), form(("v", "1"), ("v", "2")), FORM) == [1, 2]


@pytest.mark.parametrize(
    ("type_", "text"),
    [(int, "five"), (int, "5.5"), (int, '"5"'), (float, "nan"), (bool, "yes"), (bool, "1"),
     (Point, "5"), (Point, '{"x":'), (list[int], "a"), (Literal["1"], "2"), (Colour, "3"),
     (datetime.date, "soon"), (dict[str, int], "[]")],
    ids=str,
)  # fmt: skip
def test_a_part_that_is_not_what_its_field_is_is_named(type_, text):
    name, body = answer(made(type_), form(("v", text)), FORM)

    assert name == "InputError"
    assert msgspec.json.decode(body)["errors"][0]["field"].startswith("v")


def test_texts_of_a_signature_are_texts():
    signature = {"inputs": [
        {"name": "t", "dtype": "str", "shape": []},
        {"name": "ts", "dtype": "str", "shape": [-1]},
        {"name": "n", "dtype": "int64", "shape": [-1]},
    ]}  # fmt: skip

    def predict(self, batch):
        rows = zip(*(batch[name] for name in ("t", "ts", "n")), strict=True)
        return [[t, list(ts), n.tolist()] for t, ts, n in rows]

    service = service_of(predict, signature)
    one = form(("t", "5"), ("ts", "6"), ("n", "7"))
    many = form(("t", "[5]"), ("ts", "6"), ("ts", "true"), ("n", "7"), ("n", "8"))
    whole = form(("t", "a"), ("ts", '["6", "b"]'), ("n", "[7, 8]"))

    assert prediction(service, one, FORM) == ["5", ["6"], [7]]
    assert prediction(service, many, FORM) == ["[5]", ["6", "true"], [7, 8]]
    assert prediction(service, whole, FORM) == ["a", ["6", "b"], [7, 8]]


def picture(width=3):
    file = io.BytesIO()
    PIL.Image.new("RGB", (width, 2)).save(file, "PNG")
    return file.getvalue()


FILE = '; filename="x.png"\r\nContent-Type: image/png'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Image, [3, 2]),
        (Image | None, [3, 2]),
        (File, ["x.png", "image/png", picture().decode("latin-1")]),
        (list[Image], [[3, 2]]),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["image", "x", "v"])
def test_the_only_part_of_a_form_is_the_file_that_the_input_is(given, expected, name):
    predictor = loaded(typed(given)).predictor
    ((error, _, body),) = predictor.answer([item(form((name, picture(), FILE)), FORM)]).answers

    assert error == ""
    assert msgspec.json.decode(body) == {"prediction": expected}


def test_several_parts_are_the_files_of_a_list():
    parts = form(("image", picture(3), FILE), ("image", picture(4), FILE))

    assert prediction(typed(list[Image]), parts, FORM) == [[3, 2], [4, 2]]
    assert answer(typed(Image), parts, FORM)[0] == "BodyMalformed"


@pytest.mark.parametrize("given", [Image, list[Image], File, Audio], ids=str)
def test_parts_of_two_names_are_no_file(given):
    name, detail = prediction(typed(given), form(("a", picture()), ("b", picture())), FORM)

    assert (name, detail) == ("InputError", "a form of 2 names, expected the parts of one")


def test_a_picture_in_a_form_that_cannot_be_read_is_refused():
    assert answer(typed(Image), form(("image", b"no")), FORM)[0] == "InputError"


def test_a_file_may_still_be_its_name_and_base64():
    parts = form(("b64", msgspec.json.encode(picture())), ("name", '"a.png"'))

    assert prediction(typed(Image), parts, FORM) == [3, 2]
