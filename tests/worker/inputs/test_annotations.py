# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - tables of broken bytes read better unbroken
"""Inputs typed by the annotation of ``predict``."""

import datetime
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NoReturn,
    Required,
    TypedDict,
    TypeVar,
)

import msgpack
import msgspec
import numpy as np
import pytest

from servekit import InputError, Service, endpoint
from servekit.errors import BootError
from servekit.ipc.batches import MODEL_VALUE
from servekit.types import File
from servekit.worker.codecs.value import model_value
from servekit.worker.inputs.annotations import types_of
from tests.worker.batches import answer, echo, loaded, prediction, service_of
from tests.worker.worker_process import item


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    n: int


class Asked(msgspec.Struct):
    x: list[float]
    inner: Inner | None = None
    many: list[dict[str, Inner]] = []


@dataclass
class Point:
    x: float
    y: float = 0.0


class Named(TypedDict):
    x: int


class Pair(NamedTuple):
    x: int
    y: int


def typed(given: Any, got: Any = Any):
    """Return a service whose inputs are of type *given*; it shows their type."""

    def predict(self, batch):
        return [f"{type(value).__name__} {value}" for value in batch]

    predict.__annotations__ = {"batch": list[given], "return": list[got]}
    return service_of(predict)


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (Asked, {"x": [1, 2.5], "unknown": 1}, "Asked Asked(x=[1.0, 2.5], inner=None, many=[])"),
        (Point, {"x": 1}, "Point Point(x=1.0, y=0.0)"),
        (Named, {"x": 1}, "dict {'x': 1}"),
        (Pair, [1, 2], "Pair Pair(x=1, y=2)"),
        (int, 3, "int 3"),
        (str, "a", "str a"),
        (dict, {"a": 1}, "dict {'a': 1}"),
        (int | str, "a", "str a"),
        (bytes, "YWJj", "bytes b'abc'"),
        (Any, [1], "list [1]"),
    ],
)
@pytest.mark.parametrize("codec", [msgspec.json.encode, msgpack.packb], ids=["json", "msgpack"])
def test_inputs_become_instances_of_the_type(given, value, expected, codec):
    content_type = "application/json" if codec is msgspec.json.encode else "application/msgpack"
    _, body = answer(typed(given), codec(value), content_type, "application/json")

    assert msgspec.json.decode(body) == {"prediction": expected}


@pytest.mark.parametrize(
    ("given", "value", "field", "message"),
    [
        (Asked, {"x": [1, "a"]}, "x[1]", "expected float, got str"),
        (Asked, {}, "x", "missing"),
        (Asked, [], "", "expected object, got array"),
        (Asked, {"x": [], "inner": {}}, "inner.n", "missing"),
        (Asked, {"x": [], "inner": {"n": 1, "b": 2}}, "inner.b", "unknown field"),
        (
            Asked,
            {"x": [], "many": [{}, {"k": {"n": 0.5}}]},
            "many[1][k].n",
            "expected int, got float",
        ),
        (Point, {"x": True}, "x", "expected float, got bool"),
        (Named, {}, "x", "missing"),
        (int, "1", "", "expected int, got str"),
    ],
)
@pytest.mark.parametrize("codec", [msgspec.json.encode, msgpack.packb], ids=["json", "msgpack"])
def test_what_is_not_of_the_type_is_refused_with_its_field(given, value, field, message, codec):
    content_type = "application/json" if codec is msgspec.json.encode else "application/msgpack"
    name, body = answer(typed(given), codec(value), content_type)

    assert name == "InputError"
    detail = f"{field}: {message}" if field else message
    assert msgspec.json.decode(body) == {
        "detail": detail,
        "errors": [{"field": field, "message": message}],
    }


class Tagged(msgspec.Struct, tag="t", forbid_unknown_fields=True, rename="camel"):
    first_name: str
    an_age: Annotated[int, msgspec.Meta(ge=0)] = 0


class Row(msgspec.Struct, array_like=True):
    name: str
    size: int


class Even(msgspec.Struct):
    n: int

    def __post_init__(self):
        if self.n % 2:
            raise ValueError("n: is odd")


class Optional(TypedDict, total=False):
    a: Required[int]
    b: float


class Tree(msgspec.Struct):
    value: int
    children: list["Tree"] = []


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (Asked, {"x": [1, "a", 2, None], "inner": {}, "many": 3},
         {"x[1]": "expected float, got str", "x[3]": "expected float, got null",
          "inner.n": "missing", "many": "expected array, got int"}),
        (Point, {"x": "a", "y": []}, {"x": "expected float, got str", "y": "expected float, got array"}),
        (Optional, {"b": "c"}, {"a": "missing", "b": "expected float, got str"}),
        (Pair, ["a", 1.5], {"[0]": "expected int, got str", "[1]": "expected int, got float"}),
        (Tagged, {"type": "t", "firstName": 1, "anAge": -1, "c": 1, "d": 2},
         {"firstName": "expected str, got int", "anAge": "expected int >= 0", "c": "unknown field",
          "d": "unknown field"}),
        (Tagged, {"type": "u", "firstName": "a"}, {"type": "invalid value 'u'"}),
        (Row, [1, "a"], {"[0]": "expected str, got int", "[1]": "expected int, got str"}),
        (list[Even], [{"n": 1}, {"n": 2}, {"n": 3}], {"[0]": "n: is odd", "[2]": "n: is odd"}),
        (tuple[int, str], ["a", 1], {"[0]": "expected int, got str", "[1]": "expected str, got int"}),
        (dict[str, int], {"a": 1, "b": "c", "d": None},
         {"[b]": "expected int, got str", "[d]": "expected int, got null"}),
        (dict[int, int], {"1": 1, "b": 2, "3": "c"},
         {"[b]": "key: expected int, got str", "[3]": "expected int, got str"}),
        (list[dict[uuid.UUID, int] | None], [None, {"b": 1}], {"[1][b]": "key: invalid UUID"}),
        (list[int] | None, [1, "a", "b"], {"[1]": "expected int, got str", "[2]": "expected int, got str"}),
        (Tree, {"value": 1, "children": [{"value": "a"}, {"children": [{}]}]},
         {"children[0].value": "expected int, got str", "children[1].value": "missing",
          "children[1].children[0].value": "missing"}),
        (Annotated[list[int], msgspec.Meta(max_length=1)], [1, 2], {"": "expected array of length <= 1"}),
        (int | list[str], {"a": 1}, {"": "expected int | array, got object"}),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
@pytest.mark.parametrize("codec", [msgspec.json.encode, msgpack.packb], ids=["json", "msgpack"])
def test_every_field_that_is_wrong_is_named(given, value, expected, codec):
    content_type = "application/json" if codec is msgspec.json.encode else "application/msgpack"
    name, body = answer(typed(given), codec(value), content_type)

    assert name == "InputError"
    errors = msgspec.json.decode(body)["errors"]
    assert {each["field"]: each["message"] for each in errors} == expected
    assert len(errors) == len(expected)


@pytest.mark.parametrize(
    "value",
    [["a"] * 500_000, [1.5] * 499_999 + ["a"], {"x" * n: "a" for n in range(1000)}],
    ids=["all wrong", "the last one wrong", "long keys"],
)
def test_the_wrong_fields_of_a_large_input_are_found_in_little_time(value):
    given = list[float] if isinstance(value, list) else dict[str, float]
    body = msgspec.json.encode(value)
    predictor = loaded(typed(given)).predictor
    started = time.process_time()
    ((name, _, text),) = predictor.answer([item(body)]).answers

    assert name == "InputError"
    assert len(msgspec.json.decode(text)["errors"]) <= 100
    assert time.process_time() - started < 5  # squared, it would be an hour


def test_json_that_breaks_off_after_a_wrong_field_is_malformed():
    assert answer(typed(Asked), b'{"x":"a", ')[0] == "BodyMalformed"


class Scaled(msgspec.Struct):
    factor: float
    wait: datetime.timedelta | None = None
    level: Literal[1, 2] = 1

    def __post_init__(self):
        if self.factor > 9:
            raise ValueError("factor out of range, 0 to 9")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"factor":10}', ""),
        (b'{"factor":1%b}' % (b"0" * 400), "factor"),
        (b'{"factor":1,"wait":"P99999999999D"}', "wait"),
        (b'{"factor":1,"level":1%b}' % (b"0" * 400), "level"),
    ],
    ids=["the author says so", "integer", "duration", "literal"],
)
def test_what_is_out_of_range_for_a_type_alone_is_not_malformed(body, field):
    name, said = answer(typed(Scaled), body)

    assert name == "InputError"
    assert [each["field"] for each in msgspec.json.decode(said)["errors"]] == [field]


@pytest.mark.parametrize(
    ("given", "value", "field"),
    [
        (Point, "\ud800", ""),
        (Point, {"x": "\ud800", "y": 1.0}, "x"),
        (Inner, {"n": 1, "\ud800": 1}, "\ud800"),
        (list[int], [1, "\ud800"], "[1]"),
        (datetime.date | None, "\ud800", ""),
        (list[File], [{"\ud800": 1}], "[0]"),
    ],
    ids=ascii,
)
def test_a_lone_surrogate_of_another_step_is_refused_by_name(given, value, field):
    body = model_value.encode(value)
    ((name, _, said),) = loaded(typed(given)).predictor.answer([item(body, MODEL_VALUE)]).answers

    assert name == "InputError"
    shown = field.encode("utf-8", "replace").decode()
    assert [each["field"] for each in msgspec.json.decode(said)["errors"]] == [shown]


@pytest.mark.parametrize("body", [b"", b'{"x":[1', b'{"x":[1e999]}', b"[" * 9999])
def test_malformed_json_stays_malformed_for_a_typed_service(body):
    assert answer(typed(Asked), body)[0] == "BodyMalformed"


def test_other_media_types_are_converted_too():
    assert prediction(typed(bytes), b"abc", "application/octet-stream") == "bytes b'abc'"
    assert prediction(typed(str), b"abc", "text/plain") == "str abc"
    assert answer(typed(int), b"abc", "image/png")[0] == "UnknownMediaType"


def test_annotations_shape_the_interface():
    interface = loaded(typed(Asked, int | InputError)).interface

    assert interface.input_schema == {"$ref": "#/$defs/Asked"}
    assert interface.output_schema == {"type": "integer"}
    assert interface.schema_definitions["Asked"]["required"] == ["x"]
    assert interface.consumes[0] == "application/json"
    assert "image/*" not in interface.consumes


@pytest.mark.parametrize(
    "annotation",
    [list, list[Any], list[object], "list", Any, object, Sequence, Iterable[Any]],
)
def test_annotations_that_say_nothing_take_everything(annotation):
    def predict(self, batch):
        return batch

    predict.__annotations__ = {"batch": annotation}
    assert answer(service_of(predict), {"a": [1]})[1] == b'{"prediction":{"a":[1]}}'


def test_load_can_set_the_types_that_the_annotations_leave_out():
    service = service_of(lambda self, batch: [each.x[0] for each in batch])
    service.input_type, service.output_type = Asked, float
    interface = loaded(service).interface

    assert prediction(service, {"x": [1, 2]}) == 1
    assert prediction(service, {"x": "1"})[0] == "InputError"
    assert interface.input_schema == {"$ref": "#/$defs/Asked"}
    assert interface.output_schema == {"type": "number"}


def test_annotations_and_types_that_load_sets_contradict_each_other():
    service = typed(Asked)
    service.input_type = File

    with pytest.raises(BootError, match="predict: annotated, and input_type is set"):
        loaded(service)


def test_a_type_that_only_a_preprocess_can_make_is_checked_after_it():
    def predict(self, batch):
        return [value.shape[0] for value in batch]

    predict.__annotations__ = {"batch": list[np.ndarray]}

    def preprocess(self, request):
        return np.zeros(request.input) if request.input else "no array"

    service = service_of(predict, preprocess=preprocess)
    assert answer(service, 3)[1] == b'{"prediction":3}'
    assert answer(service, 0)[0] == "InputError"


def broken_set(self, batch: list[set[list[int]] | dict[str, int] | Point | Asked]):
    """Ask for a union that nothing can tell apart."""


def text_or_bytes(self, batch: list[str | bytes]):
    """Ask for what JSON cannot tell apart."""


def gives_text_or_bytes(self, batch) -> list[str | bytes]:
    """Give what no schema of msgspec tells apart."""


def without_batch(self):
    """Forget the batch."""


def unknown_name(self, batch: "list[Nowhere]"):  # noqa: F821 - that is the point
    """Name what does not exist."""


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (broken_set, "inputs cannot be decoded into"),
        (text_or_bytes, r"inputs cannot be decoded into str \| bytes: Type unions may not contain"),
        (gives_text_or_bytes, "its annotations cannot be described: Type unions may not contain"),
        (without_batch, "takes no batch"),
        (unknown_name, "cannot resolve its annotations"),
    ],
)
def test_annotations_that_cannot_be_served_fail_the_boot_with_their_line(predict, message):
    with pytest.raises(BootError, match=message) as raised:
        loaded(service_of(predict))

    assert f"(test_annotations.py:{predict.__code__.co_firstlineno})" in str(raised.value)


def lone_input(self, batch: Asked):
    """Forget the list."""


def tuple_of_inputs(self, batch: tuple[Asked, ...]):
    """Take a batch for a tuple."""


def lone_output(self, batch: list[Asked]) -> str:
    """Forget the list of outputs."""


def no_output(self, batch: list[Asked]) -> None:
    """Say that there are none."""


def maybe_lone(self, batch: Asked | None) -> Any:
    """Forget the list in a union."""


def one_array(self, batch: np.ndarray):
    """Want a stack without a name."""


def mapping_of_arrays(self, batch: Mapping[str, np.ndarray]):
    """Want a signature that is not there."""


def named_arrays(self, batch: list[Asked]) -> dict[str, np.ndarray]:
    """Give what only a signature has."""


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lone_input, "batch: Asked, and a batch is a list; write batch: list[Asked]"),
        (tuple_of_inputs, "batch is a list; write batch: list[Asked]"),
        (maybe_lone, "and a batch is a list; write batch: list["),
        (lone_output, "returns str, expected a list"),
        (no_output, "returns None, expected a list"),
        (one_array, "batch: ndarray, and a batch is a list"),
        (mapping_of_arrays, "without a signature a batch is a list"),
        (named_arrays, "without a signature a batch is a list"),
    ],
)
@pytest.mark.parametrize("is_endpoint", [False, True])
def test_an_annotation_that_is_no_batch_fails_the_boot_with_its_line(predict, message, is_endpoint):
    service = (
        service_of(echo, other=endpoint("other")(predict)) if is_endpoint else service_of(predict)
    )
    with pytest.raises(BootError, match=re.escape(message)) as raised:
        loaded(service)

    assert f"(test_annotations.py:{predict.__code__.co_firstlineno})" in str(raised.value)
    assert predict.__name__ in str(raised.value)


Many = NewType("Many", list[int])


@pytest.mark.parametrize(
    ("given", "got", "expected"),
    [
        (list, list, (Any, Any)),
        (Any, object, (Any, Any)),
        (Sequence[int], Sequence[str], (int, str)),
        (list[int] | None, Iterable[str] | None, (int, str)),
        (Annotated[list[int], "doc"], np.ndarray, (int, Any)),
        (Many, NoReturn, (int, Any)),
        (list[int], list[str] | np.ndarray, (int, Any)),
        (list[int], list[str | InputError], (int, str)),
        (TypeVar("T"), list[Any], (Any, Any)),
    ],
)
def test_annotations_of_a_batch_that_are_understood(given, got, expected):
    def predict(self, batch):
        return batch

    predict.__annotations__ = {"batch": given, "return": got}

    assert types_of(predict, "Made.predict")[:2] == expected


def test_a_stream_annotated_as_one_output_fails_the_boot_with_its_line():
    def stream(self, value: int) -> int:
        yield value

    service = type("Made", (Service,), {"stream": stream})()
    with pytest.raises(BootError, match=r"write -> Iterator\[int\] \(test_annotations.py:"):
        loaded(service)
