# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - tables of forms read better unbroken
"""Files in annotations: ``File``, ``Image``, ``Audio`` and ``Text`` of ``servekit.types``."""

import base64
import io
import struct
import sys
import wave
import zlib
from dataclasses import dataclass
from typing import Annotated, TypedDict

import msgpack
import msgspec
import numpy as np
import PIL.Image
import pytest
import soundfile
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV31SpecValidator
from pydantic import BaseModel

from servekit import Array
from servekit.description.interface import describe
from servekit.description.openapi import openapi
from servekit.description.samples import SampleValue, sample, sample_form
from servekit.description.summaries import summarize_fields
from servekit.description.swagger import swagger
from servekit.errors import BootError
from servekit.types import Audio, File, Image, MediaRefused, Text
from servekit.types import audio as audio_reader
from tests.worker.batches import answer, loaded, prediction, service_of

RED = np.full((4, 6, 3), [255, 0, 0], np.uint8)


def picture(kind="PNG", **how):
    file = io.BytesIO()
    PIL.Image.fromarray(RED).save(file, kind, **how)
    return file.getvalue()


def sound(samples=b"\x00\x00\xff\x7f", channels=1, width=2, rate=8000):
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(channels)
        written.setsampwidth(width)
        written.setframerate(rate)
        written.writeframes(samples)
    return file.getvalue()


def bomb(side):
    """A PNG of some bytes that claims a square of that side."""
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk + b"\0\0\0\0IEND\xaeB`\x82"


def upright():
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    return picture("JPEG", exif=exif)


class Photo(msgspec.Struct):
    image: Image
    caption: Text = ""
    size: int = 0
    sound: Audio | None = None
    notes: File | None = None


@dataclass
class Clip:
    sound: Audio


class Named(TypedDict, total=False):
    image: Image


class Holder(msgspec.Struct):
    photos: list[Photo]


class Album(msgspec.Struct):
    photos: list[Image]
    notes: list[File] | None = None
    words: list[Text] = []
    sizes: list[int] = []


def shown(value):
    """Return *value* as JSON: what kind each file became, and enough to know it by."""
    if isinstance(value, Image):
        return ["image", value.mode, *value.size]
    if isinstance(value, Audio):
        return ["audio", value.samples.dtype.name, value.samples.shape, value.sample_rate]
    if isinstance(value, File):
        return ["file", value.name, value.content_type, value.content.decode("latin-1")]
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items()}
    names = getattr(value, "__struct_fields__", getattr(value, "__dataclass_fields__", ()))
    return {name: shown(getattr(value, name)) for name in names} or value


def typed(given, **steps):
    def predict(self, batch):
        return [shown(value) for value in batch]

    predict.__annotations__ = {"batch": list[given]}
    return service_of(predict, **steps)


def form(*parts):
    """Return a form: the name of each part, its content, and file name and type if it has them."""
    lines = []
    for name, content, *rest in parts:
        filename = f'; filename="{rest[0]}"' if rest else ""
        type_ = f"Content-Type: {rest[1]}\r\n" if len(rest) > 1 else ""
        head = f'--B\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n{type_}\r\n'
        lines.append(head.encode() + content + b"\r\n")
    return b"".join(lines) + b"--B--\r\n", "multipart/form-data; boundary=B"


def b64(content):
    return {"b64": base64.b64encode(content).decode()}


PHOTO = {"image": ["image", "RGB", 6, 4], "caption": "", "size": 0, "sound": None, "notes": None}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([("image", picture(), "a.png", "image/png")], {}, id="a file of its type"),
        pytest.param([("image", picture("JPEG"))], {}, id="a part without a type"),
        pytest.param([("image", picture("GIF"), "a.txt", "text/plain")],
                     {"image": ["image", "P", 6, 4]}, id="the content counts, not what is said of it"),
        pytest.param([("image", upright())], {"image": ["image", "RGB", 4, 6]}, id="turned upright"),
        pytest.param([("image", picture()), ("caption", b"5"), ("size", b"5")],
                     {"caption": "5", "size": 5}, id="a Text is never a number"),
        pytest.param([("image", picture()), ("caption", b'"a"')], {"caption": '"a"'}, id="nor unquoted"),
        pytest.param([("image", picture()), ("sound", sound(), "a.wav", "audio/wav")],
                     {"sound": ["audio", "float32", [2, 1], 8000]}, id="a sound"),
        pytest.param([("image", picture()), ("notes", b"\xffabc", "../a b.bin", "application/x-thing")],
                     {"notes": ["file", "../a b.bin", "application/x-thing", "\xffabc"]}, id="any file"),
        pytest.param([("image", picture()), ("notes", b"{}", "a.json", "application/json")],
                     {"notes": ["file", "a.json", "application/json", "{}"]}, id="a file of JSON is a file"),
    ],
)  # fmt: skip
def test_parts_of_a_form_become_what_the_fields_are(parts, expected):
    assert prediction(typed(Photo), *form(*parts)) == PHOTO | expected


ALBUM = {"photos": [], "notes": None, "words": [], "sizes": []}
RGB, GREY = ["image", "RGB", 6, 4], ["image", "P", 6, 4]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([("photos", picture(), "a.png"), ("photos", picture("GIF"), "b.gif")],
                     {"photos": [RGB, GREY]}, id="two files, in their order"),
        pytest.param([("photos", picture())], {"photos": [RGB]}, id="one file is a list of one"),
        pytest.param([("photos", picture()), ("notes", b"a", "a"), ("notes", b"b", "b", "text/plain")],
                     {"photos": [RGB], "notes": [["file", "a", "", "a"], ["file", "b", "text/plain", "b"]]},
                     id="files that may be left out"),
        pytest.param([("photos", picture()), ("words", b"1"), ("words", b"[2]")],
                     {"photos": [RGB], "words": ["1", "[2]"]}, id="texts"),
        pytest.param([("photos", picture()), ("words", b"1")], {"photos": [RGB], "words": ["1"]}, id="a text"),
        pytest.param([("photos", picture()), ("sizes", b"1"), ("sizes", b"2")],
                     {"photos": [RGB], "sizes": [1, 2]}, id="numbers"),
        pytest.param([("photos", picture()), ("sizes", b"[1, 2]")],
                     {"photos": [RGB], "sizes": [1, 2]}, id="numbers in one part"),
        pytest.param([("photos", picture()), ("sizes", b"1")], {"photos": [RGB], "sizes": [1]}, id="a number"),
    ],
)  # fmt: skip
def test_parts_of_one_name_are_a_list(parts, expected):
    assert prediction(typed(Album), *form(*parts)) == ALBUM | expected


def test_a_bad_part_of_many_is_refused_with_its_place():
    parts = [("photos", picture()), ("photos", b"no"), ("sizes", b"1"), ("sizes", b"x")]
    name, text = answer(typed(Album), *form(*parts))

    assert name == "InputError"
    assert msgspec.json.decode(text)["errors"] == [
        {"field": "photos[1]", "message": NO_IMAGE},
        {"field": "sizes[1]", "message": "expected int, got str"},
    ]


def test_what_is_no_list_has_one_part():
    name, _ = answer(typed(Photo), *form(("image", picture()), ("image", picture())))

    assert name == "BodyMalformed"


def test_files_come_as_base64_in_json_and_as_bytes_in_msgpack():
    image = picture()
    value = {"image": b64(image), "notes": b64(b"abc") | {"name": "a", "content_type": "b/c"}}
    expected = PHOTO | {"notes": ["file", "a", "b/c", "abc"]}
    packed = msgpack.packb(
        {"image": image, "notes": {"b64": b"abc", "name": "a", "content_type": "b/c"}}
    )

    assert prediction(typed(Photo), msgspec.json.encode(value)) == expected
    assert answer(typed(Photo), packed, "application/msgpack", "application/json")[1] == (
        msgspec.json.encode({"prediction": expected})
    )


@pytest.mark.parametrize(
    ("given", "body", "content_type", "expected"),
    [
        (Image, picture(), "image/png", ["image", "RGB", 6, 4]),
        (Image, picture("WEBP"), "application/octet-stream", ["image", "RGB", 6, 4]),
        (Image, msgspec.json.encode(b64(picture())), "application/json", ["image", "RGB", 6, 4]),
        (Audio, sound(), "audio/wav", ["audio", "float32", [2, 1], 8000]),
        (File, b"%PDF", "application/pdf", ["file", "", "application/pdf", "%PDF"]),
        (Clip, msgspec.json.encode({"sound": b64(sound())}), "application/json",
         {"sound": ["audio", "float32", [2, 1], 8000]}),
        (Named, msgspec.json.encode({"image": b64(picture())}), "application/json",
         {"image": ["image", "RGB", 6, 4]}),
        (Holder, msgspec.json.encode({"photos": [{"image": b64(picture())}]}), "application/json",
         {"photos": [PHOTO]}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)[:20]),
)  # fmt: skip
def test_a_file_may_be_the_whole_body_or_lie_deep_within(given, body, content_type, expected):
    assert prediction(typed(given), body, content_type) == expected


MISSING_FILE = 'expected a file: a part of a form, or {"b64": ...}'
A_URL = (
    "a URL is not accepted, as nothing is fetched for a client; send the file itself, "
    'as a part of a form or {"b64": ...}'
)
NO_IMAGE = "not a readable PNG or JPEG or WEBP or GIF or BMP image"


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        pytest.param(*form(("image", b"no image")), {"image": NO_IMAGE}, id="no image"),
        pytest.param(*form(("image", picture()[:45])), {"image": NO_IMAGE}, id="half an image"),
        pytest.param(*form(("image", bomb(20_000))), {"image": "over the limit of 67108864 pixels"},
                     id="a bomb"),
        pytest.param(*form(("image", bomb(9_000))), {"image": "over the limit of 67108864 pixels"},
                     id="a bomb that Pillow itself would take"),
        pytest.param(*form(("image", b"%!PS-Adobe-3.0 EPSF-3.0")), {"image": NO_IMAGE},
                     id="a format whose reader runs a program"),
        pytest.param(*form(("image", b"no"), ("sound", b"no"), ("size", b"no")),
                     {"image": NO_IMAGE, "sound": "not a PCM WAV file; nothing reads other formats here",
                      "size": "expected int, got str"}, id="every field"),
        pytest.param(*form(("caption", b"a")), {"image": "missing"}, id="missing"),
        pytest.param(b'{"image": "AAAA"}', "application/json", {"image": MISSING_FILE}, id="a text"),
        pytest.param(b'{"image": "https://a.example/b.png"}', "application/json", {"image": A_URL},
                     id="a URL"),
        pytest.param(b'{"image": {"url": "data:,"}, "sound": {"uri": "file:///etc/passwd"}}',
                     "application/json", {"image": A_URL, "sound": A_URL}, id="a URL with its key"),
        pytest.param(b'{"image": {"b64": "?"}}', "application/json",
                     {"image.b64": "invalid base64 encoded string"}, id="no base64"),
        pytest.param(b'{"image": {"b65": ""}}', "application/json", {"image.b65": "unknown field"},
                     id="another key"),
        pytest.param(b'{"image": {"b64": ""}}', "application/json", {"image": NO_IMAGE}, id="empty"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_its_field(body, content_type, expected, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    name, text = answer(typed(Photo), body, content_type)

    assert name == "InputError"
    errors = msgspec.json.decode(text)["errors"]
    assert {each["field"]: each["message"] for each in errors} == expected
    assert len(errors) == len(expected)


def test_a_text_that_is_no_utf8_is_malformed():
    assert (
        answer(typed(Photo), *form(("image", picture()), ("caption", b"\xff")))[0]
        == "BodyMalformed"
    )


@pytest.mark.parametrize(
    ("width", "data", "expected"),
    [
        (1, b"\x00\x80\xff", [-1, 0, 127 / 128]),
        (2, b"\x00\x80\x00\x00\xff\x7f", [-1, 0, 32767 / 32768]),
        (3, b"\x00\x00\x80\x00\x00\x00\x00\x00\x40", [-1, 0, 0.5]),
        (4, b"\x00\x00\x00\x80\x00\x00\x00\x00\x00\x00\x00\x40", [-1, 0, 0.5]),
    ],
)
def test_samples_are_floats_between_minus_one_and_one(width, data, expected):
    read = audio_reader.read_audio(sound(data, width=width, rate=44_100))

    assert read.samples[:, 0].tolist() == expected
    assert read.sample_rate == 44_100


def test_channels_lie_beside_one_another():
    read = audio_reader.read_audio(sound(struct.pack("<4h", 0, -32768, 16384, 0), channels=2))

    assert read.samples.tolist() == [[0, -1], [0.5, 0]]


def test_a_header_that_promises_more_than_there_is_gets_what_there_is():
    assert audio_reader.read_audio(sound(b"\0" * 20)[:-3]).samples.shape == (8, 1)


@pytest.mark.parametrize(
    ("kind", "subtype"),
    [("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("WAV", "FLOAT"), ("AIFF", "PCM_24")],
)
def test_soundfile_reads_what_is_no_pcm_wav(kind, subtype):
    file = io.BytesIO()
    soundfile.write(file, np.full((800, 2), 0.5, np.float32), 8000, format=kind, subtype=subtype)
    read = audio_reader.read_audio(file.getvalue())

    assert read.samples.shape == (800, 2)
    assert read.samples.dtype == np.float32
    assert np.abs(read.samples[300:500] - 0.5).max() < 0.1
    assert read.sample_rate == 8000


def test_what_soundfile_cannot_read_is_refused():
    with pytest.raises(MediaRefused, match="not a readable audio file"):
        audio_reader.read_audio(b"no sound")


def test_a_header_that_leads_out_of_the_file_is_refused_without_a_traceback(capfd):
    """An AIFF file that ends within the head of its second chunk."""
    common = b"COMM\0\0\0\x12\0\1\0\0\0\x08\0\x10\x40\x0b\xfa" + bytes(7)

    with pytest.raises(MediaRefused, match="not a readable audio file"):
        audio_reader.read_audio(b"FORM\0\0\0\x3eAIFF" + common + b"S\xff")
    assert capfd.readouterr() == ("", "")


def test_a_sound_of_too_many_samples_is_refused(monkeypatch):
    monkeypatch.setattr(audio_reader, "MAX_SAMPLES", 3)

    assert prediction(typed(Audio), sound(b"\0" * 8), "audio/wav")[0] == "InputError"


def test_preprocess_gets_the_file_and_may_make_the_image_itself():
    def preprocess(self, request):
        found = request.input
        return {"image": PIL.Image.new("L", (len(found["image"].content), 1))}

    service = typed(Photo, preprocess=preprocess)

    assert prediction(service, *form(("image", b"abc")))["image"] == ["image", "L", 3, 1]


def test_without_pillow_an_image_fails_the_boot(monkeypatch):
    monkeypatch.delitem(sys.modules, "servekit.types.images", raising=False)
    monkeypatch.setitem(sys.modules, "PIL", None)

    with pytest.raises(BootError, match=r"needs Pillow, pip install pillow \(test_files.py:"):
        loaded(typed(Photo))


def described(given):
    interface = loaded(typed(given)).interface
    return describe({"name": "photos", "version": "1"}, interface)


def test_fields_are_files_in_forms_and_base64_in_json():
    content = openapi([described(Photo)])["paths"]["/photos/predict"]["post"]["requestBody"][
        "content"
    ]
    form = content["multipart/form-data"]["schema"]
    binary = {"type": "string", "format": "binary"}

    assert form["properties"]["image"] == form["properties"]["notes"] == binary
    assert form["properties"]["caption"] == {"type": "string", "description": "text"}
    assert form["required"] == ["image"]
    photo = loaded(typed(Photo)).interface.schema_definitions["Photo"]["properties"]
    assert photo["image"]["properties"]["b64"]["contentEncoding"] == "base64"
    assert photo["image"]["properties"]["b64"]["contentMediaType"] == "image/*"


def test_files_of_a_list_are_described_and_one_is_shown():
    schema = openapi([described(Album)])["paths"]["/photos/predict"]["post"]["requestBody"][
        "content"
    ]["multipart/form-data"]["schema"]
    shown = sample_form(described(Album))

    assert schema["properties"]["photos"] == {
        "type": "array",
        "items": {"type": "string", "format": "binary"},
    }
    assert (shown.files, shown.lists) == ({"photos": "photos.png"}, {"photos"})
    OpenAPIV2SpecValidator(swagger([described(Album)])).validate()


def test_swagger_has_a_field_of_a_form_for_each():
    post = swagger([described(Photo)])["paths"]["/photos/predict"]["post"]

    assert post["consumes"] == ["multipart/form-data"]
    kinds = {each["name"]: (each["type"], each["required"]) for each in post["parameters"]}
    assert kinds["image"] == ("file", True)
    assert kinds["sound"] == ("file", False)
    assert kinds["caption"] == kinds["size"] == ("string", False)


class Said(BaseModel):
    text: str
    inner: "Said | None" = None


class Everything(msgspec.Struct):
    photo: Photo
    said: Said
    vector: Annotated[np.ndarray, Array("float32", (-1, 3))]
    more: list[Annotated[np.ndarray, Array("str", (2,))] | None] = []


@pytest.mark.parametrize("given", [Photo, Clip, Named, Image, Everything, Said])
def test_descriptions_are_valid_by_their_standards(given):
    OpenAPIV31SpecValidator(openapi([described(given)])).validate()
    OpenAPIV2SpecValidator(swagger([described(given)])).validate()


@pytest.mark.parametrize("given", [Photo, Clip, File, Image, Audio, Everything, Said])
def test_the_input_that_a_snippet_sends_is_taken(given):
    value = sample(described(given))

    assert isinstance(value, SampleValue)
    assert answer(typed(given), value.value)[0] == "application/json"


def test_files_and_arrays_are_told_in_words():
    interface = loaded(typed(Everything)).interface
    definitions = interface.schema_definitions

    assert ("image", "file, image/*") in summarize_fields({"$ref": "#/$defs/Photo"}, definitions)
    assert ("vector", "float32[any, 3]") in summarize_fields(interface.input_schema, definitions)
    assert summarize_fields(interface.input_schema, definitions)[3] == (
        "more", "list of str[2] or nothing, optional",
    )  # fmt: skip


def test_bodies_that_are_files_are_listed():
    assert {"image/*", "application/octet-stream"} <= set(loaded(typed(Image)).interface.consumes)
    assert "multipart/form-data" in loaded(typed(Image)).interface.consumes
    assert "audio/*" not in loaded(typed(Image)).interface.consumes
