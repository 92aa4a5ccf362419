# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - tables of broken bytes read better unbroken
"""Bodies that announce more than they hold take neither memory nor time."""

import struct
import time
import tracemalloc
from typing import Annotated

import msgpack
import msgspec
import numpy as np
import pytest

from servekit.types import Array
from servekit.worker.codecs.msgpack import ARRAY
from tests.worker.batches import answer, echo, loaded, service_of
from tests.worker.worker_process import item

pytestmark = pytest.mark.slow

MIB = 1 << 20
FORM = "multipart/form-data; boundary=B"
MSGPACK, NPY, JSON = "application/msgpack", "application/x-npy", "application/json"


def extension(payload):
    return b"\xc9" + struct.pack(">IB", len(payload), ARRAY) + payload


def npy(version, size, header=b""):
    return b"\x93NUMPY" + version + size + header


def hollow(*shape, content=b""):
    """Return an array of bytes that claims *shape*, in msgpack and as ``.npy``."""
    header = b"{'descr':'|u1','fortran_order':False,'shape':%b}" % str(shape).encode()
    packed = msgpack.packb(["uint8", [*shape], content])
    return extension(packed), npy(b"\x01\x00", b"\x76\x00", header.ljust(118)) + content


def part(headers, content=b"1"):
    return b"--B\r\n" + headers + b"\r\n\r\n" + content + b"\r\n"


NAMED = b'Content-Disposition: form-data; name="a"'
BOMBS = {
    "array of 4 billion": (MSGPACK, b"\xdd\xff\xff\xff\xff"),
    "map of 4 billion": (MSGPACK, b"\xdf\xff\xff\xff\xff"),
    "4 GB of bytes": (MSGPACK, b"\xc6\xff\xff\xff\xff"),
    "4 GB of text": (MSGPACK, b"\xdb\xff\xff\xff\xff"),
    "4 GB of extension": (MSGPACK, b"\xc9\xff\xff\xff\xff\x4e"),
    "arrays of millions in one another": (MSGPACK, b"\xdd\x00\x4f\xff\xff" * (MIB - 1)),
    "arrays of 65,535 in one another": (MSGPACK, b"\xdc\xff\xff" * (MIB - 1)),
    "maps of millions in one another": (MSGPACK, b"\xdf\x00\x1f\xff\xff\xa1a" * (MIB // 2)),
    "arrays that lie in an extension": (MSGPACK, extension(b"\xdd\x00\x4f\xff\xff" * (MIB - 1))),
    "an extension's shape of millions": (MSGPACK, extension(b"\x93\xa5uint8\xdd\x00\x4f\xff\xff\x01")),
    "an array of 4 EB": (MSGPACK, msgpack.packb(msgpack.ExtType(ARRAY, msgpack.packb(["uint8", [1 << 62], b""])))),
    "npy with a header of 4 GB": (NPY, npy(b"\x02\x00", b"\xff\xff\xff\xff")),
    "npy with a header of 64 KiB": (NPY, npy(b"\x01\x00", b"\xff\xff", b"(" * 65_535)),
    "npy of nested parentheses": (NPY, npy(b"\x01\x00", b"\xa0\x0f", b"(" * 4000)),
    "npy of minus signs": (NPY, npy(b"\x01\x00", b"\xa0\x0f", b"-" * 4000)),
    "npy of 4 EB": (NPY, npy(b"\x01\x00", b"\x76\x00", b"{'descr':'|u1','fortran_order':False,'shape':(4611686018427387904,)}".ljust(118))),
    "JSON of brackets": (JSON, b"[" * 5 * MIB),
    "JSON of an unending text": (JSON, b'"' + b"a" * 5 * MIB),
    "a form of 100,000 parts": (FORM, part(NAMED) * 100_000 + b"--B--\r\n"),
    "a part of endless headers": (FORM, b"--B\r\n" + NAMED + b"\r\nX: y" * 500_000),
    "a part of one endless header": (FORM, b"--B\r\n" + NAMED + b"x" * 5 * MIB),
    "a form of carriage returns": (FORM, part(NAMED, b"\r" * 5 * MIB)),
    "a form of half boundaries": (FORM, part(NAMED, b"\r\n--" * MIB)),
}  # fmt: skip


@pytest.fixture(scope="module")
def predictor():
    made = loaded(service_of(echo)).predictor
    made.answer(
        [item(b"0", content_type) for content_type in (JSON, MSGPACK, NPY, FORM)]
    )  # imports
    return made


@pytest.mark.parametrize(("content_type", "body"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_malformed_at_once_in_little_memory(predictor, content_type, body):
    started = time.process_time()
    ((error, _, _),) = predictor.answer([item(body, content_type)]).answers
    taken_s = time.process_time() - started

    tracemalloc.start()
    predictor.answer([item(body, content_type)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert error == "BodyMalformed"
    assert taken_s < 2
    assert peak < 4 * len(body) + 2 * MIB


EMPTY = [(10_000_000, 0), (2**40, 0), (1000, 1000, 0), (70_000, 0), (2**20, 2**20, 0, 5)]
SIGNATURE = {"inputs": [{"name": "x", "dtype": "uint8", "shape": [-1, -1]}]}


def rows(self, batch):
    """Answer what came by a signature."""
    return batch["x"]


def of_type(type_):
    """Return a service that echoes inputs of *type_*."""

    def predict(self, batch):
        return batch

    predict.__annotations__["batch"] = list[type_]
    return service_of(predict)


class Holder(msgspec.Struct):
    x: Annotated[np.ndarray, Array("uint8", (-1, -1))]


TAKERS = {
    "an untyped service": (service_of(echo), b"%b"),
    "a list": (service_of(echo), b"\x92\x01%b"),
    "a signature": (service_of(rows, SIGNATURE), b"%b"),
    "a field of a signature": (service_of(rows, SIGNATURE), b"\x81\xa1x%b"),
    "an annotated array": (of_type(Annotated[np.ndarray, Array("uint8", (-1, -1))]), b"%b"),
    "an annotated field": (of_type(Holder), b"\x81\xa1x%b"),
}


def peak_of(predictor, *items):
    """Return the answers to *items*, and the memory that they took at most."""
    predictor.answer(items)
    tracemalloc.start()
    turn = predictor.answer(items)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return turn.answers, peak


@pytest.mark.parametrize("shape", EMPTY, ids=str)
@pytest.mark.parametrize(("service", "frame"), TAKERS.values(), ids=TAKERS)
def test_an_array_without_elements_is_not_believed(service, frame, shape):
    packed, _ = hollow(*shape)
    ((error, _, body),), peak = peak_of(loaded(service).predictor, item(frame % packed, MSGPACK))

    assert error == "BodyMalformed"
    assert f"shape [{shape[0]}, ".encode() in body
    assert peak < MIB


@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_an_npy_file_without_elements_is_not_believed(predictor, shape):
    ((error, _, _),), peak = peak_of(predictor, item(hollow(*shape)[1], NPY))

    assert error == "BodyMalformed"
    assert peak < MIB


def test_many_arrays_share_the_lists_that_a_body_may_make(predictor):
    many = b"\xdc\x03\xe8" + hollow(60_000, 0)[0] * 1000
    ((error, _, _),), peak = peak_of(predictor, item(many, MSGPACK))

    assert error == "BodyMalformed"
    assert peak < MIB


@pytest.mark.parametrize(
    "shape", [(0,), (0, 3), (3, 0), (60_000, 0), (0, 2**40), (2, 0, 3)], ids=str
)
def test_an_empty_array_of_honest_size_is_taken(predictor, shape):
    for body, content_type in zip(hollow(*shape), (MSGPACK, NPY), strict=True):
        ((error, _, text),) = predictor.answer([item(body, content_type)]).answers

        assert error == ""
        assert msgspec.json.decode(text) == {"prediction": np.zeros(shape, "u1").tolist()}


@pytest.mark.parametrize("axes", [1, 2, 4])
def test_a_column_may_be_as_long_as_its_body(predictor, axes):
    for count in (1, 1000, 20_000):
        packed, file = hollow(count, *[1] * (axes - 1), content=b"\x01" * count)
        for body, content_type in ((packed, MSGPACK), (file, NPY)):
            assert answer(service_of(echo), body, content_type)[0] == "application/json"


@pytest.mark.parametrize("place", [lambda array: array, lambda array: {"a": [1, array]}])
def test_an_output_without_elements_is_not_written_out(place):
    made = place(np.zeros((10_000_000, 0)))
    ((error, _, _), good), peak = peak_of(
        loaded(service_of(lambda _self, _batch: [made, 1])).predictor, item(1), item(2)
    )

    assert (error, good[0]) == ("ResultNotEncodable", "")
    assert peak < MIB


def test_a_bomb_costs_its_neighbours_nothing(predictor):
    items = [item(b"[%d]" % n) for n in range(4)]
    items[1:1] = [item(body, content_type) for content_type, body in BOMBS.values()]
    answers = predictor.answer(items).answers

    good = [body for error, _, body in answers if not error]
    assert good == [b'{"prediction":[%d]}' % n for n in range(4)]


def test_refused_keys_leave_nothing_behind(predictor):
    body = b"\x82\x01\x02\x93\x01\x02\x03\x04"
    predictor.answer([item(body, MSGPACK)] * 100)
    tracemalloc.start()
    for _ in range(1000):
        predictor.answer([item(body, MSGPACK)] * 10)
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert left < MIB // 4
