# SPDX-License-Identifier: Apache-2.0
"""From an ``Accept`` and an output to an answer."""

import math
import types
from typing import Annotated, Any, Literal

import msgpack
import msgspec
import numpy as np
import pytest

from servekit import InputError, hookimpl
from servekit.hookspecs import ReadOnly
from servekit.plugins import create_plugin_manager
from servekit.worker.boot.assembly import assemble
from servekit.worker.codecs.table import CodecTable
from tests.worker.batches import answer, echo, loaded, service_of
from tests.worker.worker_process import item

JSON, MSGPACK, NPY = "application/json", "application/msgpack", "application/x-npy"
OCTET_STREAM = "application/octet-stream"
PNG = b"\x89PNG\r\n\x1a\n..."


def answering(output):
    """Return a service that always answers *output*."""
    return service_of(lambda self, batch: [output] * len(batch))


@pytest.mark.parametrize(
    ("accept", "output", "media_type"),
    [
        ("", {"a": 1}, JSON),
        ("*/*", {"a": 1}, JSON),
        ("application/*", {"a": 1}, JSON),
        ("application/json;q=0, */*", {"a": 1}, MSGPACK),
        (f"{JSON};q=0.5, {MSGPACK}", {"a": 1}, MSGPACK),
        (f"{MSGPACK}, {JSON}", {"a": 1}, JSON),
        ("application/x-msgpack", {"a": 1}, "application/x-msgpack"),
        ("application/vnd.msgpack", {"a": 1}, "application/vnd.msgpack"),
        (NPY, np.ones(2), NPY),
        (NPY, [1, 2], NPY),
        (f"{NPY}, {JSON};q=0.5", {"a": 1}, JSON),
        ("text/plain", "text", "text/plain"),
        ("text/*", "text", "text/plain"),
        ("text/html, */*;q=0.8", "text", JSON),
        ("", b"abc", OCTET_STREAM),
        ("*/*", b"abc", OCTET_STREAM),
        (OCTET_STREAM, b"abc", OCTET_STREAM),
        (JSON, b"abc", JSON),
        ("image/png", PNG, "image/png"),
        ("image/*", PNG, "image/png"),
        ("image/avif,image/webp,image/png,*/*;q=0.8", PNG, "image/png"),
        ("image/x-own", b"unknown", "image/x-own"),
        ("image/png, */*;q=0.1", b"unknown", "image/png"),
        ("image/webp, */*;q=0.1", PNG, OCTET_STREAM),
        ("image/png, application/json;q=0.1", {"a": 1}, JSON),
    ],
)
def test_the_answer_is_in_the_best_media_type_that_can_hold_it(accept, output, media_type):
    assert answer(answering(output), 1, accept=accept)[0] == media_type


@pytest.mark.parametrize(
    ("accept", "output"),
    [
        ("text/html", 1),
        ("a/b;q=1, */*;q=0", 1),
        ("nonsense", 1),
        ("image/png", 1),
        (NPY, {"a": 1}),
        ("text/plain", 1),
        (OCTET_STREAM, "text"),
        ("image/webp", PNG),
        ("application/vnd.api+json", 1),
    ],
)
def test_nothing_that_fits_is_not_acceptable(accept, output):
    assert answer(answering(output), 1, accept=accept)[0] == "NotAcceptable"


def test_what_can_never_be_had_is_known_before_predict():
    called = []
    service = service_of(lambda self, batch: called.append(batch) or batch)

    name, body = answer(service, 1, accept="text/html")
    assert (name, called) == ("NotAcceptable", [])
    assert b"no acceptable media type; available: application/json, application/msgpack" in body


UNSAID_OUT = {"inputs": [{"name": "x", "dtype": "int64", "shape": []}], "outputs": []}
ARRAY_OUT = UNSAID_OUT | {"outputs": [{"name": "y", "dtype": "int64", "shape": []}]}
TEXT_OUT = UNSAID_OUT | {"outputs": [{"name": "y", "dtype": "str", "shape": []}]}
TWO_OUT = UNSAID_OUT | {"outputs": ARRAY_OUT["outputs"] + TEXT_OUT["outputs"]}
ALWAYS = [JSON, MSGPACK, "application/x-msgpack", "application/vnd.msgpack"]
OF_BYTES = ["image/*", "audio/*", "video/*"]
EVERY = [*ALWAYS, NPY, OCTET_STREAM, "text/plain", *OF_BYTES]
PLUGIN = types.SimpleNamespace(
    register_codecs=hookimpl(specname="register_codecs")(
        lambda: {"image/jpeg": ReadOnly("not.there:jpeg"), "image/png": "not.there:png"}
    )
)


class Point(msgspec.Struct):
    x: int


def annotated(output_type):
    """Return a service that says what it gives, and fails if it is asked."""

    def predict(self, batch):
        raise AssertionError("predict ran")

    predict.__annotations__["return"] = list[output_type]
    return service_of(predict)


KINDS = [
    (annotated(Any), EVERY),
    (annotated(Literal["a"]), [*ALWAYS, "text/plain"]),
    (annotated(bytes), [*ALWAYS, OCTET_STREAM, *OF_BYTES]),
    (annotated(Annotated[str, "a word"]), [*ALWAYS, "text/plain"]),
    (annotated(str | int | None), [*ALWAYS, NPY, "text/plain"]),
    (annotated(list[float]), [*ALWAYS, NPY]),
    (annotated(np.ndarray), [*ALWAYS, NPY]),
    (annotated(Point), ALWAYS),
    (annotated(Point | InputError), ALWAYS),
    (annotated(dict[str, int]), ALWAYS),
    (service_of(echo, UNSAID_OUT), EVERY),
    (service_of(echo, ARRAY_OUT), [*ALWAYS, NPY]),
    (service_of(echo, TEXT_OUT), [*ALWAYS, "text/plain"]),
    (service_of(echo, TWO_OUT), ALWAYS),
    (
        service_of(echo, ARRAY_OUT, postprocess=lambda self, output: b""),
        EVERY,
    ),
]


@pytest.mark.parametrize(("service", "expected"), KINDS)
def test_a_service_produces_what_can_hold_its_outputs(service, expected):
    assert loaded(service).interface.produces == expected


def test_a_codec_of_a_plugin_is_produced_unless_it_only_reads():
    produced = loaded(annotated(Point), PLUGIN).interface.produces

    assert produced == [*ALWAYS, "image/png"]


@pytest.mark.parametrize("accept", ["image/jpeg", "audio/wav", OCTET_STREAM, NPY, "text/*"])
def test_a_406_before_predict_names_what_is_produced(accept):
    turn = loaded(annotated(Point), PLUGIN).predictor.answer([item({"x": 1}, accept=accept)])
    ((name, _, body),) = turn.answers

    assert name == "NotAcceptable"
    assert msgspec.json.decode(body)["detail"] == (
        f"Accept: no acceptable media type; available: {', '.join([*ALWAYS, 'image/png'])}"
    )


def test_bytes_go_out_as_what_a_codec_only_reads():
    jpeg = b"\xff\xd8\xff..."
    turn = loaded(answering(jpeg), PLUGIN).predictor.answer([item(1, accept="image/jpeg")])

    assert turn.answers == [("", "image/jpeg", jpeg)]


@pytest.mark.parametrize("accept", ["", JSON, f"{JSON}, {NPY};q=0.1"])
def test_a_number_that_is_none_is_the_service_s_fault(accept):
    assert answer(answering({"a": math.nan}), 1, accept=accept)[0] == "ResultNotEncodable"


def test_a_large_answer_is_refused_by_its_size():
    service = answering("x" * 1000)
    table = CodecTable(create_plugin_manager(discover=False))
    turn = assemble(service, table, max_answer_bytes=1000).predictor.answer([item(1)])
    assert turn.answers[0][0] == "ResultNotEncodable"


def test_msgpack_answers_hold_the_same_mapping_as_json():
    _, body = answer(answering([1, np.ones(1, "f4")]), 1, accept=MSGPACK)

    one, array = msgpack.unpackb(body)["prediction"]
    assert one == 1
    assert msgpack.unpackb(array.data) == ["float32", [1], b"\0\0\x80\x3f"]
