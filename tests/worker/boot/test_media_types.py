# SPDX-License-Identifier: Apache-2.0
"""Types and media types, all pairs: whatever is listed works, and whatever works is listed."""

import base64
import io

import msgpack
import msgspec
import numpy as np
import pytest
from PIL import Image as Pillow

from servekit.hookspecs import CodecTarget
from servekit.plugins import create_plugin_manager
from servekit.worker.boot.assembly import assemble
from servekit.worker.codecs.npy import codec as npy
from servekit.worker.codecs.table import CodecTable
from servekit.worker.inputs.forms import FORM
from servekit.worker.inputs.media_leaf import PIXEL, SILENCE
from servekit.worker.prediction.request_reader import is_taken
from tests.services.pairs import INPUTS, OUTPUTS, Data, Pairs, name_of
from tests.worker.batches import service_of
from tests.worker.worker_process import item, run

PNG, WAV = base64.b64decode(PIXEL), base64.b64decode(SILENCE)
SIGNATURES = {
    "one input": [{"name": "n", "dtype": "float32", "shape": [2]}],
    "one number": [{"name": "n", "dtype": "int64", "shape": []}],
    "one text": [{"name": "n", "dtype": "str", "shape": []}],
    "texts": [{"name": "n", "dtype": "str", "shape": [-1]}],
    "two inputs": [
        {"name": "n", "dtype": "float32", "shape": []},
        {"name": "m", "dtype": "str", "shape": []},
    ],
    "open picture": [{"name": "n", "dtype": "float32", "shape": [-1, -1, 3]}],
}
NAMED = {
    "one input": [1, 2], "one number": 1, "one text": "a", "texts": ["a"],
    "open picture": [[[1, 2, 3]]],
}  # fmt: skip
NPY = [
    np.float32([1, 2]), np.int64([[1, 2]]), np.float32(1), np.int64(1), np.array([True, False]),
    np.zeros((1, 1, 3), np.uint8),
]  # fmt: skip


class Yaml:
    """What a plugin offers that says nothing of kinds."""

    def register_codecs(self):
        return {
            "application/yaml": f"{__name__}:yaml",
            "image/x-grid": CodecTarget(
                f"{__name__}:grid", reads=["uint8[any, any, 3]"], writes=["uint8[any, any, 3]"]
            ),
        }


class _Codec:
    def __init__(self, decode, encode):
        self.decode, self.encode = decode, encode


def _grid(output):
    if not (
        isinstance(output, np.ndarray) and output.dtype == np.uint8 and output.shape[2:] == (3,)
    ):
        raise TypeError("no grid")
    return b"grid"


yaml = _Codec(
    lambda body, parameters: msgspec.json.decode(body),
    lambda output: msgspec.json.encode(output, enc_hook=lambda value: value.tolist()),
)
grid = _Codec(lambda body, parameters: np.zeros((1, 1, 3), np.uint8), _grid)


def bodies(media_type, value):
    """Return the bodies of *media_type* of which one is an input if any is."""
    as_json, as_msgpack = msgspec.json.encode(value), msgpack.packb(value)
    if media_type == FORM:
        fields = value if isinstance(value, dict) else {"n": value, "instances": value}
        if "image" in fields:
            return [form({"image": PNG}, is_file=True)]
        return [form({name: msgspec.json.encode(each) for name, each in fields.items()})]
    if "msgpack" in media_type:
        return [as_msgpack]
    if media_type == "application/x-npy":
        return [npy.encode(each) for each in NPY]
    if media_type == "text/plain":
        return [b"text", b"a", b"YWJj", str(value).encode()]
    if media_type.startswith(("image/", "audio/", "video/", "application/octet")):
        raw = [each.tobytes() for each in NPY]
        return [PNG, WAV, b"a" * 16, *map(picture, ("JPEG", "WEBP")), *raw]
    return [as_json]


def picture(kind):
    file = io.BytesIO()
    Pillow.new("RGB", (1, 1)).save(file, kind)
    return file.getvalue()


def form(parts, *, is_file=False):
    lines = []
    for name, body in parts.items():
        head = f'Content-Disposition: form-data; name="{name}"'
        head += '; filename="a.png"\r\nContent-Type: image/png' if is_file else ""
        lines.append(b"--B\r\n" + head.encode() + b"\r\n\r\n" + body + b"\r\n")
    return b"".join(lines) + b"--B--\r\n"


def concrete(media_type):
    names = {"image/*": "image/gif", "audio/*": "audio/wav", "video/*": "video/mp4"}
    return names.get(media_type, media_type)


def sent(media_type, body):
    content_type = f"{media_type}; boundary=B" if media_type == FORM else media_type
    return item(body, concrete(content_type))


TABLE = CodecTable(create_plugin_manager(Yaml(), discover=False))
EVERY = [*TABLE.media_types, FORM]


def takes(predictor, value):
    """Return the media types of which a body is an input."""
    return {
        media_type
        for media_type in EVERY
        if any(
            not predictor.answer([sent(media_type, body)]).answers[0][0]
            for body in bodies(media_type, value)
        )
    }


def gives(predictor):
    """Return the media types in which the output can be had."""
    asked = [name for name in EVERY if name != FORM]
    return {
        name for name in asked
        if not predictor.answer([item(1, accept=concrete(name))]).answers[0][0]
    }  # fmt: skip


@pytest.fixture(scope="module")
def pairs():
    """Return the methods of a service that has an endpoint for each type, and what they list."""
    found = assemble(Pairs(), TABLE)
    return found.methods, {row.name: row.interface for row in found.methods.rows}


@pytest.mark.parametrize("label", INPUTS)
def test_an_input_of_each_type_by_each_media_type(pairs, label):
    methods, interfaces = pairs
    name = f"take_{name_of(label)}"

    listed = set(interfaces[name].consumes) - {"*/*"}
    assert listed == takes(methods.predictor(name), INPUTS[label][1])


@pytest.mark.parametrize("label", OUTPUTS)
def test_an_output_of_each_type_for_each_accept(pairs, label):
    methods, interfaces = pairs
    name = f"give_{name_of(label)}"

    assert set(interfaces[name].produces) == gives(methods.predictor(name))


def test_a_real_worker_takes_and_gives_what_it_lists(start):
    worker = start("pairs:Pairs").boot()
    channel = worker.connect()
    interfaces = {row.name: row.interface for row in worker.interface.endpoints}
    every = set().union(*(each.consumes for each in interfaces.values())) - {"*/*"}
    asked = set().union(*(each.produces for each in interfaces.values()))

    def is_answered(name, sent_item):
        sent_item.calls = run(f".{name}")
        ((error, _),) = channel.predict(sent_item)
        return "/" in error

    for label, (_, value) in INPUTS.items():
        name = f"take_{name_of(label)}"
        works = {
            media_type
            for media_type in every
            if any(is_answered(name, sent(media_type, body)) for body in bodies(media_type, value))
        }
        assert works == set(interfaces[name].consumes) - {"*/*"}, label
    for label in OUTPUTS:
        name = f"give_{name_of(label)}"
        works = {each for each in asked if is_answered(name, item(1, accept=concrete(each)))}
        listed = set(interfaces[name].produces)
        assert works == {each for each in asked if is_taken(each, listed)}, label


def rows(self, batch):
    return [0] * len(batch["n"])


@pytest.mark.parametrize("label", SIGNATURES)
def test_inputs_of_a_signature_by_each_media_type(label):
    found = assemble(service_of(rows, {"inputs": SIGNATURES[label], "outputs": []}), TABLE)
    alone = NAMED.get(label)
    value = {"n": 1, "m": "a"} if alone is None else {"n": alone}
    works = takes(found.predictor, value) | (takes(found.predictor, alone) if alone else set())

    assert set(found.interface.consumes) == works


SIGNED_OUTPUTS = {
    "float32 [2]": np.float32([[1, 2]]),
    "uint8 [1, 1, 3]": np.zeros((1, 1, 1, 3), np.uint8),
    "uint8 [3]": np.zeros((1, 3), np.uint8),
    "int64 []": np.int64([1]),
    "bool []": np.array([True]),
    "str []": np.array(["a"], object),
    "str [1]": np.array([["a"]], object),
}


@pytest.mark.parametrize("label", SIGNED_OUTPUTS)
@pytest.mark.parametrize("kind", ["mapping", "rows", "two"])
def test_outputs_of_a_signature_for_each_accept(label, kind):
    array = SIGNED_OUTPUTS[label]

    def predict(self, batch):
        named = {"o": array, "p": array} if kind == "two" else {"o": array}
        return array if kind == "rows" else named

    dtype = label.partition(" ")[0]
    outputs = [
        {"name": name, "dtype": dtype, "shape": list(array.shape[1:])}
        for name in ("op" if kind == "two" else "o")
    ]
    found = assemble(
        service_of(predict, {"inputs": SIGNATURES["one number"], "outputs": outputs}), TABLE
    )

    assert set(found.interface.produces) == gives(found.predictor)


def test_a_file_is_taken_whatever_it_says_that_it_is(pairs):
    methods, interfaces = pairs

    assert "*/*" in interfaces["take_file"].consumes
    for content_type in "application/pdf", "":
        (answer,) = methods.predictor("take_file").answer([item(b"%PDF", content_type)]).answers
        assert not answer[0]


def test_bodies_that_a_model_does_not_take_are_refused_with_those_that_it_takes():
    def predict(self, batch: list[int]):
        return batch

    predictor = assemble(service_of(predict), TABLE).predictor
    (error, _, said), *_ = predictor.answer([item(b"\x00", "image/png")]).answers

    assert error == "UnknownMediaType"
    assert b"image/png is not taken; one of application/json, application/msgpack" in said
    (missing,) = predictor.answer([item(b"1", "")]).answers
    assert b"Content-Type: missing; one of application/json, application/msgpack" in missing[2]
    assert b"x-npy" not in missing[2] + said


@pytest.mark.parametrize(
    ("body", "refused"),
    [(b"1.0", ""), (b"0.0", ""), (b"1e2", ""), (b"1.5", "InputError"), (b"1e300", "InputError")],
)
@pytest.mark.parametrize("media_type", ["application/json", "application/msgpack", FORM])
def test_a_whole_number_is_an_integer_however_it_is_written(body, refused, media_type):
    def predict(self, batch: list[Data]):
        assert all(type(each.n) is int for each in batch)
        return [0] * len(batch)

    signed = {"inputs": SIGNATURES["one number"], "outputs": []}
    for service in service_of(predict), service_of(rows, signed):
        predictor = assemble(service, TABLE).predictor
        value = msgspec.json.decode(body)
        texts = {"application/json": b'{"n": %b}' % body, FORM: form({"n": body})}
        sent_body = texts.get(media_type) or msgpack.packb({"n": value})
        (answer,) = predictor.answer([sent(media_type, sent_body)]).answers

        assert answer[0] == refused
