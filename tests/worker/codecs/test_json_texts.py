# SPDX-License-Identifier: Apache-2.0
"""Every rule of JSON, in every place where a client may send it."""

import gc
import json
import time

import msgspec
import pydantic
import pytest

from servekit.errors import BodyMalformed
from servekit.worker.codecs.json import decode_json
from servekit.worker.inputs.input_kind import AnyInput
from tests.worker.batches import answer, echo, loaded, service_of
from tests.worker.json_texts import OPEN, REFUSED, TAKEN, TOO_LARGE
from tests.worker.worker_process import item


class Point(msgspec.Struct):
    x: float


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    x: float
    junk: object = None


class Model(pydantic.BaseModel):
    x: float
    junk: object = None


def typed(type_):
    """Return a service whose inputs are of *type_*; it answers how many came."""

    def predict(self, batch):
        return [len(batch)] * len(batch)

    predict.__annotations__["batch"] = list[type_]
    return service_of(predict)


SIGNATURE = {"inputs": [{"name": "x", "dtype": "float32", "shape": [-1]}]}
SIGNED = service_of(lambda self, batch: batch["x"].sum(axis=1), SIGNATURE)

TEXT = {"inputs": [{"name": "x", "dtype": "str", "shape": []}]}
SEVERAL = {"inputs": [*SIGNATURE["inputs"], {"name": "y", "dtype": "int64", "shape": []}]}


def signed(signature):
    """Return a service of *signature* that answers how many came."""

    def predict(self, batch):
        return [len(batch["x"])] * len(batch["x"])

    return service_of(predict, signature)


#: what surrounds a text, and the service that gets it
PLACES = {
    "alone": (b"%b", service_of(echo)),
    "in an object": (b'{"x":1,"junk":%b}', service_of(echo)),
    "unknown to a type": (b'{"x":1,"junk":%b}', typed(Point)),
    "known to a type": (b'{"x":1,"junk":%b}', typed(Strict)),
    "deep below a type": (b'{"a":[{"b":%b}]}', typed(dict[str, object])),
    "hidden by a second key": (b'{"x":%b,"x":1}', typed(Point)),
    "hidden in a signature": (b'{"x":%b,"x":[1]}', SIGNED),
    "alone to a signature": (b"%b", SIGNED),
    "alone to a text of a signature": (b"%b", signed(TEXT)),
    "unknown to a signature": (b'{"x":[1],"z":%b}', SIGNED),
    "alone to several inputs": (b"%b", signed(SEVERAL)),
    "in a list to several inputs": (b'[{"y":1},{"x":%b}]', signed(SEVERAL)),
    "one of several inputs": (b'{"y":%b,"x":[1]}', signed(SEVERAL)),
    "alone to a type": (b"%b", typed(Strict)),
    "alone to a list of a type": (b"%b", typed(list[Strict])),
    "alone to a model": (b"%b", typed(Model)),
    "unknown to a model": (b'{"x":1,"y":%b}', typed(Model)),
    "known to a model": (b'{"x":1,"junk":%b}', typed(Model)),
}


@pytest.fixture(params=PLACES.values(), ids=PLACES, scope="module")
def place(request):
    frame, service = request.param
    return frame, loaded(service).predictor


def statuses(place, texts):
    """Return the error, or the media type, of each of *texts*, sent in one batch each."""
    frame, predictor = place
    found = {}
    for text in texts:
        ((error, media_type, _),) = predictor.answer([item(frame % text)]).answers
        found[text] = error or media_type
    return found


def test_what_is_no_json_is_malformed_wherever_it_stands(place):
    wrong = {text[:60]: name for text, name in statuses(place, REFUSED).items()
             if name != "BodyMalformed"}  # fmt: skip

    assert wrong == {}


def test_what_is_json_is_taken_wherever_it_may_stand(place):
    refusals = set() if isinstance(place[1].kind, AnyInput) else {"InputError"}

    assert set(statuses(place, TAKEN).values()) <= {"application/json"} | refusals


def test_a_value_comes_back_as_it_went():
    predictor = loaded(service_of(echo)).predictor
    for text in TAKEN:
        ((_, _, body),) = predictor.answer([item(text)]).answers
        assert json.loads(body)["prediction"] == json.loads(text), text[:60]


@pytest.mark.parametrize("name", ["alone", "in an object", "known to a type", "known to a model"])
@pytest.mark.parametrize("text", TOO_LARGE, ids=lambda text: ascii(text[:9]))
def test_a_number_too_large_to_hold_is_refused(name, text):
    frame, service = PLACES[name]

    assert answer(service, frame % text)[0] == "BodyMalformed"


@pytest.mark.parametrize("text", OPEN, ids=ascii)
def test_a_lone_surrogate_survives_in_json_and_nowhere_else(text):
    service = service_of(echo)
    name, body = answer(service, text)

    assert (name, json.loads(body)) == ("application/json", {"prediction": json.loads(text)})
    assert answer(service, text, accept="application/msgpack")[0] == "ClientError"
    assert answer(typed(str | dict | list), text)[0] == "BodyMalformed"


@pytest.mark.parametrize("text", [b"[1,", b"{", b'[1, "a', b"[1] x", b'"abc', b"1e", b"nul"])
def test_several_inputs_find_a_malformed_text_behind_its_first_character(text):
    assert answer(signed(SEVERAL), text)[0] == "BodyMalformed"
    assert answer(signed(SEVERAL), b"[1]")[0] == "InputError"


@pytest.mark.parametrize("text", [rb'["\ud800", NaN]', rb'["\ud800", 1e999]', rb'["\ud800",]'])
def test_a_lone_surrogate_excuses_nothing_else(text):
    assert answer(service_of(echo), text)[0] == "BodyMalformed"


HOSTILE = {
    "brackets": b"[" * 1_000_000,
    "closed brackets": b"[" * 500_000 + b"]" * 500_000,
    "empty lists": b"[" + b"[]," * 333_333 + b"1]",
    "quotes": b'"' * 1_000_001,
    "backslashes": b'"' + b"\\" * 1_000_000,
    "surrogates": b'"' + rb"\ud800" * 166_666 + b"[",
    "digits": b"1" * 1_000_000,
    "fraction": b"0." + b"1" * 1_000_000,
    "exponent": b"1e" + b"9" * 1_000_000,
    "spaces": b" " * 1_000_000,
    "one key": b"{" + b'"a":1,' * 166_666 + b"}",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_megabyte_of_anything_costs_little(text):
    predictor = loaded(service_of(echo)).predictor
    gc.freeze()  # as a worker does: what other tests have loaded is not looked at again
    try:
        started = time.process_time()
        predictor.answer([item(text)])
        took_s = time.process_time() - started
    finally:
        gc.unfreeze()

    assert took_s < 5  # squared, it would be an hour


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 2**70, 10**300])
def test_a_long_integer_that_a_client_asks_back_as_msgpack_is_the_clients_fault(number):
    for text in (b"%d" % number, b'{"a":[1,%d]}' % number):
        name, body = answer(service_of(echo), text, accept="application/msgpack")

        assert name == "ClientError"
        assert b"Accept: none of it can hold what the input holds" in body


def test_what_msgpack_cannot_hold_of_a_services_own_is_the_services_fault():
    for output in ("\ud800", {"\udfff": 1}, 2**64, [-(2**70)]):
        service = service_of(lambda self, batch, output=output: [output] * len(batch))
        for sent in (b"1", b'"a"', rb'"\ud83d\ude00"'):
            assert answer(service, sent, accept="application/msgpack")[0] == "ResultNotEncodable"


@pytest.mark.parametrize("filler", [0, 2000])
@pytest.mark.parametrize(
    ("depth", "inside", "is_taken"),
    [
        (100, "1", True),
        (101, "1", False),
        (100, '"[[[["', True),
        (100, r'"\"[\\"', True),
        (1, ",".join(["[1]"] * 200), True),
        (99, ",".join(['{"a":1}'] * 200), True),
        (99, ",".join(['{"a":[1]}'] * 200), False),
    ],
)
def test_the_depth_is_that_of_brackets_outside_of_strings(depth, inside, is_taken, filler):
    body = f"{'[' * depth}{inside}{' ' * filler}{']' * depth}".encode()

    if is_taken:
        decode_json(body)
    else:
        with pytest.raises(BodyMalformed, match="nested deeper than 100 levels"):
            decode_json(body)
