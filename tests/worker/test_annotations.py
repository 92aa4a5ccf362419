# SPDX-License-Identifier: Apache-2.0
"""Inputs typed by the annotation of ``predict``."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import msgpack
import msgspec
import numpy as np
import pytest

from servekit import InputError
from servekit.errors import BootError
from tests.worker.batches import answer, loaded, prediction, service_of


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
            "many[1][...].n",
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


@pytest.mark.parametrize("body", [b"", b'{"x":[1', b'{"x":[1e999]}', b"[" * 9999])
def test_malformed_json_stays_malformed_for_a_typed_service(body):
    assert answer(typed(Asked), body)[0] == "BodyMalformed"


def test_other_media_types_are_converted_too():
    assert prediction(typed(bytes), b"abc", "application/octet-stream") == "bytes b'abc'"
    assert prediction(typed(str), b"abc", "text/plain") == "str abc"
    assert answer(typed(int), b"abc", "image/png")[0] == "InputError"


def test_annotations_shape_the_interface():
    interface = loaded(typed(Asked, int | InputError)).interface

    assert interface.input_schema == {"$ref": "#/$defs/Asked"}
    assert interface.output_schema == {"type": "integer"}
    assert interface.schema_definitions["Asked"]["required"] == ["x"]
    assert interface.consumes[0] == "application/json"
    assert "image/*" not in interface.consumes


@pytest.mark.parametrize(
    "annotation",
    [list, list[Any], list[object], "list", Any, dict[str, np.ndarray], np.ndarray, None],
)
def test_annotations_that_say_nothing_take_everything(annotation):
    def predict(self, batch):
        return batch

    predict.__annotations__ = {"batch": annotation}
    assert answer(service_of(predict), {"a": [1]})[1] == b'{"prediction":{"a":[1]}}'


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


def without_batch(self):
    """Forget the batch."""


@pytest.mark.parametrize(
    ("predict", "message"),
    [(broken_set, "inputs cannot be decoded into"), (without_batch, "takes no batch")],
)
def test_annotations_that_cannot_be_served_fail_the_boot(predict, message):
    with pytest.raises(BootError, match=message):
        loaded(service_of(predict))
