# SPDX-License-Identifier: Apache-2.0
"""Pictures, sound and files as outputs: what clients get, and what the boot refuses."""

import gc
import io
import re
import sys
import wave
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import attrs
import msgpack
import msgspec
import numpy as np
import PIL.Image
import pytest
import soundfile
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV31SpecValidator
from PIL.PngImagePlugin import PngImageFile
from pydantic import BaseModel, ConfigDict

from servekit import Done, InputError, Response, Service, endpoint
from servekit.description.interface import describe
from servekit.description.openapi import openapi
from servekit.description.swagger import swagger
from servekit.errors import BootError
from servekit.types import Audio, File, Format, Image
from servekit.types.audio import read_audio
from servekit.worker.outputs.output_media import OutputMedia
from tests.worker.batches import answer, echo, loaded, prediction, service_of
from tests.worker.worker_process import item

JPEG = Annotated[Image, Format("image/jpeg", quality=60)]
FLAC = Annotated[Audio, Format("audio/flac", bits=24)]
PDF = Annotated[File, Format("application/pdf")]
T = TypeVar("T")
TONE = Audio(np.array([[0.5, -1.0], [0.25, 0.0]], np.float32), 8000)


def picture(mode="RGB", size=(6, 4), colour="red"):
    return PIL.Image.new("RGB", size, colour).convert(mode)


def giving(output, type_, **steps):
    """Return a service that answers *output*, annotated as *type_*."""

    def predict(self, batch) -> list[type_]:
        return [output for _ in batch]

    return service_of(predict, **steps)


def in_json(service, body=b"1"):
    """Return the prediction of a client that wants JSON."""
    return msgspec.json.decode(answer(service, body, accept="application/json")[1])["prediction"]


def image_of(content):
    image = PIL.Image.open(io.BytesIO(content))
    image.load()
    return image


# ------------------------------------------------------------ what Accept gives


@pytest.mark.parametrize(
    ("type_", "output", "accept", "expected"),
    [
        (Image, picture(), "", "image/png"),
        (Image, picture(), "*/*", "image/png"),
        (Image, picture(), "image/*", "image/png"),
        (Image, picture(), "image/jpeg", "image/jpeg"),
        (Image, picture(), "image/avif,image/webp,*/*;q=0.8", "image/webp"),
        (Image, picture(), "application/json", "application/json"),
        (Image, picture(), "application/json, text/plain, */*", "application/json"),
        (Image, picture(), "image/jpeg;q=0.5, application/msgpack", "application/msgpack"),
        (Image, picture(), "text/plain", "NotAcceptable"),
        (Image, picture(), "image/gif", "NotAcceptable"),
        (JPEG, picture(), "", "image/jpeg"),
        (JPEG, picture(), "image/png", "image/png"),
        (JPEG | None, picture(), "", "image/jpeg"),
        (JPEG | None, None, "", "application/json"),
        (JPEG | None, None, "image/jpeg", "NotAcceptable"),
        (JPEG | InputError, InputError("no"), "", "InputError"),
        (PIL.Image.Image, picture(), "", "image/png"),
        (PngImageFile, picture(), "image/webp", "image/webp"),
        (Audio, TONE, "", "audio/wav"),
        (Audio, TONE, "audio/flac", "audio/flac"),
        (Audio, TONE, "audio/*", "audio/wav"),
        (FLAC, TONE, "", "audio/flac"),
        (Audio, TONE, "image/png", "NotAcceptable"),
        (File, File("a", "text/csv; charset=utf-8", b"a"), "", "text/csv; charset=utf-8"),
        (File, File("a", "text/csv", b"a"), "text/*", "text/csv"),
        (File, File("", "", b"a"), "*/*", "application/octet-stream"),
        (File, File("a", "text/csv", b"a"), "text/html", "NotAcceptable"),
        (File, File("a", "text/csv", b"a"), "text/html, application/json", "application/json"),
        (File, File("a", "application/json", b"1"), "", "application/json"),
        (PDF, File("a", "", b"%PDF"), "", "application/pdf"),
        (PDF, File("a", "", b"%PDF"), "text/csv", "NotAcceptable"),
        (PDF, File("a", "text/html", b"<p>"), "", "ResultNotEncodable"),
        (list[Image], [picture()], "", "application/json"),
        (list[Image], [picture()], "image/png", "NotAcceptable"),
    ],
)  # fmt: skip
def test_the_client_and_the_format_choose_the_media_type(type_, output, accept, expected):
    assert answer(giving(output, type_), b"1", accept=accept)[0] == expected


@pytest.mark.parametrize("accept", ["image/png", "image/jpeg", "image/webp"])
@pytest.mark.parametrize(
    "mode",
    ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "I", "I;16", "F"],
)
def test_a_picture_of_any_mode_is_written_in_each_format(accept, mode):
    body = answer(giving(picture(mode, colour="white"), Image), b"1", accept=accept)[1]

    found = image_of(body)
    assert found.size == (6, 4)
    assert found.get_format_mimetype() == accept
    if mode not in ("I", "I;16"):
        assert np.asarray(found.convert("L")).min() >= 254


def test_a_png_holds_every_pixel():
    image = PIL.Image.effect_noise((31, 17), 90).convert("RGBA")

    found = image_of(answer(giving(image, Image), b"1")[1])

    assert found.tobytes() == image.tobytes()


def test_greys_of_sixteen_bits_are_scaled_where_a_format_has_eight():
    grey = PIL.Image.fromarray(np.full((4, 6), 0x80FF, np.uint16))

    png, jpeg = (
        image_of(answer(giving(grey, Image), b"1", accept=f"image/{kind}")[1])
        for kind in ("png", "jpeg")
    )

    assert png.getpixel((0, 0)) == 0x80FF
    assert jpeg.getpixel((0, 0)) == pytest.approx(0x80, abs=1)


def test_what_is_transparent_is_white_in_a_jpeg():
    clear = PIL.Image.new("RGBA", (6, 4), (255, 0, 0, 0))

    found = image_of(answer(giving(clear, Image), b"1", accept="image/jpeg")[1])

    assert found.getpixel((0, 0)) == (255, 255, 255)


def test_the_quality_is_that_of_the_format():
    noise = PIL.Image.effect_noise((64, 64), 90).convert("RGB")

    def size(quality, accept):
        type_ = Annotated[Image, Format("image/png", quality=quality)]
        return len(answer(giving(noise, type_), b"1", accept=accept)[1])

    for accept in ("image/jpeg", "image/webp"):
        assert size(95, accept) > 2 * size(10, accept)


def test_a_colour_profile_stays_with_its_colours():
    image = picture()
    image.info["icc_profile"] = b"profile"

    assert image_of(answer(giving(image, Image), b"1")[1]).info["icc_profile"] == b"profile"
    cmyk = image.convert("CMYK")
    assert "icc_profile" not in image_of(answer(giving(cmyk, Image), b"1")[1]).info


@pytest.mark.parametrize(
    ("image", "accept", "expected"),
    [
        (picture(size=(0, 4)), "", "ResultNotEncodable"),
        (picture("L", (16_384, 1)), "image/webp", "ResultNotEncodable"),
        (picture("L", (16_384, 1)), "image/webp, image/png;q=0.1", "image/png"),
    ],
)
def test_a_picture_that_a_format_cannot_hold_is_the_next_one_or_an_error(image, accept, expected):
    assert answer(giving(image, Image), b"1", accept=accept)[0] == expected


# ------------------------------------------------------------ sound


@pytest.mark.parametrize("bits", [16, 24])
@pytest.mark.parametrize("kind", ["wav", "flac"])
def test_sound_is_what_it_was_when_it_is_read(kind, bits):
    samples = (np.arange(-300, 300, dtype=np.float32) / 2**15).reshape(-1, 2)
    type_ = Annotated[Audio, Format(f"audio/{kind}", bits=bits)]

    found = read_audio(answer(giving(Audio(samples, 44_100), type_), b"1")[1])

    assert found.sample_rate == 44_100
    assert found.samples.tolist() == samples.tolist()


def test_the_bits_are_those_of_the_format():
    content = answer(giving(TONE, Annotated[Audio, Format("audio/wav", bits=24)]), b"1")[1]

    with wave.open(io.BytesIO(content)) as file:
        assert (file.getsampwidth(), file.getnchannels(), file.getnframes()) == (3, 2, 2)
    assert soundfile.info(io.BytesIO(answer(giving(TONE, FLAC), b"1")[1])).subtype == "PCM_24"


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param(np.array([0.5, -0.5]), [[0.5], [-0.5]], id="one channel, of doubles"),
        pytest.param(np.array([2.0, -7]), [[1 - 2**-15], [-1]], id="clipped"),
        pytest.param(np.array([3e38, -3e38], np.float32), [[1 - 2**-15], [-1]], id="far beyond"),
        pytest.param(np.array([16384, -32768], np.int16), [[0.5], [-1]], id="int16"),
        pytest.param(np.zeros((0, 2), np.float16), [], id="silence of no length"),
    ],
)
def test_samples_may_be_of_any_float_and_of_int16(samples, expected):
    found = read_audio(answer(giving(Audio(samples, 8000), Audio), b"1")[1])

    assert found.samples.tolist() == expected


@pytest.mark.parametrize(
    ("samples", "rate"),
    [
        pytest.param(np.zeros((2, 2, 2)), 8000, id="three axes"),
        pytest.param(np.zeros((2, 0)), 8000, id="no channel"),
        pytest.param(np.zeros((2, 65)), 8000, id="too many channels"),
        pytest.param(np.array([1, 2], np.int32), 8000, id="other integers"),
        pytest.param(np.array([np.nan]), 8000, id="NaN"),
        pytest.param(np.zeros(2), 0, id="no rate"),
        pytest.param(np.zeros(2), 8000.5, id="half a frame"),
        pytest.param(np.zeros(2), None, id="a rate that is none"),
        pytest.param("la", 8000, id="no samples"),
    ],
)
@pytest.mark.parametrize("accept", ["audio/wav", "application/json"])
def test_what_is_no_sound_is_the_error_of_the_service(samples, rate, accept):
    service = giving(Audio(samples, rate), Audio)

    assert answer(service, b"1", accept=accept)[0] == "ResultNotEncodable"


@pytest.mark.parametrize("bits", [16, 24])
@pytest.mark.parametrize("kind", ["wav", "flac"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_loudest_samples_of_any_float_stay_the_loudest(dtype, kind, bits):
    samples = np.array([1, 0.99951171875, 0.5, -1], dtype)
    type_ = Annotated[Audio, Format(f"audio/{kind}", bits=bits)]

    found = read_audio(answer(giving(Audio(samples, 8000), type_), b"1")[1])

    loudest = 1 - 2.0 ** (1 - bits)
    assert found.samples[:, 0].tolist() == [loudest, 0.99951171875, 0.5, -1]


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_flac_without_frames_is_the_error_of_the_service_as_nothing_reads_it(dtype):
    service = giving(Audio(np.zeros((0, 2), dtype), 8000), Audio)

    assert answer(service, b"1", accept="audio/flac")[0] == "ResultNotEncodable"
    assert answer(service, b"1", accept="audio/wav")[0] == "audio/wav"


def test_flac_is_offered_only_where_it_can_be_written(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)

    assert "audio/flac" not in loaded(giving(TONE, Audio)).interface.produces
    with pytest.raises(BootError, match=r"audio/flac needs soundfile.* \(test_output_media.py:\d+"):
        loaded(giving(TONE, FLAC))


# ------------------------------------------------------------ within JSON and msgpack


class Result(msgspec.Struct, rename="camel"):
    big_one: JPEG
    same: Image | None = None
    tones: list[FLAC] = []
    by_name: dict[str, Image] = {}
    pair: tuple[int, Image] | None = None
    note: File | None = None
    inner: "Result | None" = None


@dataclass(frozen=True, slots=True)
class Card:
    image: JPEG
    title: str = ""


class Clip(TypedDict, total=False):
    sound: FLAC


class Pair(NamedTuple):
    left: Image
    right: JPEG


@attrs.frozen
class Poster:
    image: JPEG
    title: str = ""


@dataclass
class Framed(Generic[T]):
    held: T


Picture = NewType("Picture", JPEG)


def kinds(value):
    """Return *value* with the media type of each file in the place of it."""
    if isinstance(value, list):
        return [kinds(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "b64" in value:
        return value["content_type"]
    return {key: kinds(each) for key, each in value.items()}


RED = picture()
OUTPUTS = [
    (JPEG, RED, "image/jpeg"),
    (Picture, RED, "image/jpeg"),
    (list[Image], [RED, RED], ["image/png"] * 2),
    (set[FLAC], {TONE}, ["audio/flac"]),
    (Card, Card(RED, "a"), {"image": "image/jpeg", "title": "a"}),
    (Poster, Poster(RED, "a"), {"image": "image/jpeg", "title": "a"}),
    (Poster | None, Poster(RED), {"image": "image/jpeg", "title": ""}),
    (Clip, {"sound": TONE}, {"sound": "audio/flac"}),
    (Clip, {}, {}),
    (Framed[JPEG], Framed(RED), {"held": "image/jpeg"}),
    (Pair, Pair(RED, RED), ["image/png", "image/jpeg"]),
    (Card | Literal["none"], Card(RED), {"image": "image/jpeg", "title": ""}),
    (Card | Literal["none"], "none", "none"),
    (list[Card | None], [None, Card(RED)], [None, {"image": "image/jpeg", "title": ""}]),
    (list[Literal["a"] | Card], ["a", Card(RED)], ["a", {"image": "image/jpeg", "title": ""}]),
    (Result | None, None, None),
    (
        Result,
        Result(RED, RED, [TONE], {"a": RED}, (1, RED), File("n", "text/csv", b"1"), Result(RED)),
        {
            "bigOne": "image/jpeg",
            "same": "image/png",
            "tones": ["audio/flac"],
            "byName": {"a": "image/png"},
            "pair": [1, "image/png"],
            "note": "text/csv",
            "inner": {"bigOne": "image/jpeg", "same": None, "tones": [], "byName": {}, "pair": None,
                      "note": None, "inner": None},
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "output", "expected"), OUTPUTS)
def test_each_of_the_media_has_its_own_format_within_json(type_, output, expected):
    service = giving(output, type_)

    packed = msgpack.unpackb(answer(service, b"1", accept="application/msgpack")[1])
    assert kinds(in_json(service)) == expected
    assert kinds(packed["prediction"]) == expected


def test_the_output_of_the_service_stays_as_it_was():
    result = Result(RED, by_name={"a": RED})
    answer(giving(result, Result), b"1")

    assert (result.big_one, result.by_name) == (RED, {"a": RED})


def test_what_comes_out_of_json_can_go_into_it():
    class Photo(msgspec.Struct):
        image: Image
        sound: Audio
        note: File

    def predict(self, batch: list[Photo]) -> list[Photo]:
        return batch

    sent = {"image": RED, "sound": TONE, "note": File("n", "text/csv", b"1")}
    first = in_json(giving(sent, dict[str, object]))
    assert in_json(service_of(predict), msgspec.json.encode(first)) == first


def test_media_that_no_annotation_mentions_are_written_within_json():
    def predict(self, batch):
        return [{"image": RED, "sound": TONE, "note": File("", "", b"1")} for _ in batch]

    found = prediction(service_of(predict), b"1")

    assert found["image"]["content_type"] == "image/png"
    assert found["sound"]["content_type"] == "audio/wav"
    assert found["note"] == {"b64": "MQ=="}


def test_content_types_that_clients_choose_are_not_kept():
    def predict(self, batch: list[File]) -> list[File]:
        return batch

    predictor = loaded(service_of(predict)).predictor
    kept = []
    for start in range(0, 300, 100):
        types = [f"text/x-{number}" for number in range(start, start + 100)]
        answers = predictor.answer([item(b"1", each) for each in types]).answers
        assert [media_type for _, media_type, _ in answers] == types
        gc.collect()
        kept.append(sum(type(each) is OutputMedia for each in gc.get_objects()))

    assert kept[-1] <= kept[0] + 16


def test_a_file_of_json_is_base64_within_json():
    service = giving(File("", "application/json", b"1"), File)

    assert in_json(service) == {"b64": "MQ==", "content_type": "application/json"}


def test_what_cannot_be_written_is_named(capfd):
    service = giving(Result(RED, by_name={"a": picture(size=(0, 0))}), Result)

    assert answer(service, b"1")[0] == "ResultNotEncodable"
    assert "output.by_name.a: an image of 0x0 pixels cannot be written as" in capfd.readouterr().err


@pytest.mark.parametrize("content_type", ["text", "text/plain\r\nX-Evil: 1", "a/b; \r\n", "é/x"])
def test_a_file_without_a_valid_content_type_is_the_error_of_the_service(content_type):
    service = giving(File("", content_type, b""), File)

    assert answer(service, b"1")[0] == "ResultNotEncodable"


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/msgpack"])
@pytest.mark.parametrize(
    ("output", "type_", "expected"),
    [
        (np.zeros((4, 4, 3), np.uint8), Image, "output: ndarray where the annotation says Image"),
        (b"\x89PNG", Image, "output: bytes where the annotation says Image"),
        (b"\x89PNG", JPEG, "output: bytes where the annotation says Image"),
        (RED, Audio, "output: Image where the annotation says Audio"),
        (5, Image | None, "output: int where the annotation says"),
        ({"by_name": {"a": 5}}, dict[str, dict[str, Image]], "int where the annotation says Image"),
    ],
)
def test_an_output_that_is_not_of_its_type_is_the_error_of_the_service(
    capfd, accept, output, type_, expected
):
    assert answer(giving(output, type_), b"1", accept=accept)[0] == "ResultNotEncodable"
    assert expected in capfd.readouterr().err


def test_bytes_in_the_place_of_a_picture_are_not_sent_as_the_type_that_a_client_accepts(capfd):
    assert answer(giving(b"no picture", Image), b"1", accept="image/png")[0] == "ResultNotEncodable"
    assert "output: bytes where the annotation says Image" in capfd.readouterr().err


def test_nothing_and_the_bytes_of_a_file_may_stand_for_media():
    assert in_json(giving(None, Image)) is None
    assert answer(giving(b"12", File), b"1")[1] == b"12"


# ------------------------------------------------------------ other ways to answer


def test_negotiation_for_files_of_one_type_happens_once():
    plan = loaded(giving(File("", "text/csv", b"1"), File)).predictor.plans[b"*/*"]

    file = File("", "text/csv", b"1")
    assert plan.of_media(file) is plan.of_media(file)


def test_a_response_around_a_picture_keeps_its_status():
    turn = loaded(giving(Response(RED, status=201), JPEG)).predictor.answer([item(b"1")])

    assert turn.answers[0][1] == "image/jpeg"
    assert turn.responses[0][0] == 201


def test_the_annotation_of_postprocess_counts():
    def postprocess(self, output) -> JPEG:
        return output

    service = giving(RED, int, postprocess=postprocess)

    assert answer(service, b"1")[0] == "image/jpeg"


def test_media_that_postprocess_turns_into_bytes_are_no_media():
    service = giving(RED, Image, postprocess=lambda self, output: b"png")

    assert answer(service, b"1") == ("application/octet-stream", b"png")


def test_a_signature_of_inputs_alone_can_give_pictures():
    def predict(self, batch) -> list[JPEG]:
        return [RED for _ in batch["x"]]

    signature = {"inputs": [{"name": "x", "dtype": "int8", "shape": []}]}

    assert answer(service_of(predict, signature), b'{"x": 1}')[0] == "image/jpeg"


@pytest.mark.parametrize("kind", ["predict", "stream"])
def test_async_services_answer_with_pictures(kind):
    async def predict(self, value) -> JPEG:
        return RED

    async def stream(self, value) -> AsyncIterator[JPEG]:
        yield RED

    found = loaded(type("Made", (Service,), {kind: {"predict": predict, "stream": stream}[kind]})())
    try:
        ((_, media_type, body),) = found.predictor.answer([item(b"1")]).answers
    finally:
        found.loop.close()

    if kind == "predict":
        assert media_type == "image/jpeg"
    else:
        assert kinds(msgspec.json.decode(body)) == {"prediction": ["image/jpeg"]}


def test_endpoints_have_their_own():
    def other(self, batch) -> list[JPEG]:
        return [RED for _ in batch]

    service = service_of(echo, other=endpoint("other")(other))
    methods = loaded(service).methods

    answered = methods.predictor("other").answer([item(b"1")]).answers[0]
    assert answered[1] == "image/jpeg"
    assert methods.rows[0].interface.produces[0] == "image/jpeg"


@pytest.mark.parametrize("kind", ["stream", "step"])
def test_streams_without_streaming_are_lists(kind):
    def stream(self, value) -> Iterator[JPEG]:
        yield RED

    def step(self, slots) -> list[list[JPEG] | Done | None]:
        return [Done([RED]) for _ in slots]

    def admit(self, value):
        return value

    members = {"stream": {"stream": stream}, "step": {"admit": admit, "step": step}}
    service = type("Made", (Service,), members[kind])()

    assert kinds(in_json(service)) == ["image/jpeg"]
    assert loaded(service).interface.produces[0] == "application/json"


# ------------------------------------------------------------ what the boot refuses


class Typo(msgspec.Struct):
    size: Annotated[int, Format("image/png")] = 0


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (Annotated[Image, Format("image/tiff")], "an Image cannot be image/tiff; one of "),
        (Annotated[Audio, Format("audio/mpeg")], "an Audio cannot be audio/mpeg; one of "),
        (Annotated[Audio, Format("image/png")], "an Audio cannot be image/png; one of "),
        (dict[str, Annotated[Image, Format("audio/wav")]], "an Image cannot be audio/wav; one of "),
        (Annotated[File, Format("application/json")], "a File cannot be application/json, in "),
        (Annotated[File, Format("application/vnd.servekit.value")], "is reserved for the server"),
        (Typo, "declares a Format of int; it belongs to an Image, an Audio or a File, as in "),
        (Annotated[Image | None, Format("image/png")], "declares a Format of .*Image | None; it "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["predict", "stream", "endpoint", "step", "postprocess"])
def test_what_cannot_be_written_fails_the_boot_with_its_line(kind, type_, expected):
    def predict(self, batch) -> list[type_]:
        """Give media."""

    def stream(self, value) -> Iterator[type_]:
        yield value

    def step(self, slots) -> list[type_]:
        """Give media one by one."""

    def postprocess(self, given) -> type_:
        """Turn what may be media into media."""

    members = {
        "predict": {"predict": predict},
        "stream": {"stream": stream},
        "endpoint": {"predict": echo, "other": endpoint("other")(predict)},
        "step": {"admit": echo, "step": step},
        "postprocess": {"predict": echo, "postprocess": postprocess},
    }
    with pytest.raises(BootError, match=expected) as raised:
        loaded(type("Made", (Service,), members[kind])())

    assert re.search(r"\(test_output_media\.py:\d+\)$", str(raised.value))


class Unwritable(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    image: Image


def test_pictures_in_a_pydantic_model_fail_the_boot_with_its_line():
    with pytest.raises(
        BootError, match=r"(?s)servekit\.types\.Image.* \(test_output_media\.py:\d+\)$"
    ):
        loaded(giving(RED, Unwritable))


def test_a_union_that_cannot_be_described_fails_the_boot_with_its_line():
    with pytest.raises(BootError, match=r"union.* \(test_output_media\.py:\d+\)$"):
        loaded(giving(RED, str | Image))


def test_a_signature_with_outputs_contradicts_pictures():
    signature = {
        "inputs": [{"name": "x", "dtype": "int8", "shape": []}],
        "outputs": [{"name": "y", "dtype": "int8", "shape": []}],
    }
    with pytest.raises(BootError, match=r"leave outputs out of \[signature\] \(test_output_media"):
        loaded(giving_by(signature))


def giving_by(signature):
    def predict(self, batch) -> list[Image]:
        return batch["x"]

    return service_of(predict, signature)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("png",), {}, "'png' is not a media type such as image/png"),
        (("image/jpeg",), {"quality": 0}, "quality 0 of image/jpeg: 1 to 100"),
        (("image/jpeg",), {"quality": 101}, "quality 101"),
        (("audio/wav",), {"quality": 90}, "quality 90 of audio/wav"),
        (("audio/wav",), {"bits": 8}, "8 bits of audio/wav: 16 or 24"),
        (("image/png",), {"bits": 16}, "16 bits of image/png"),
    ],
)
def test_a_format_says_what_is_wrong_with_it(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        Format(*arguments, **options)


# ------------------------------------------------------------ what is said of them


@pytest.mark.parametrize(("type_", "output", "_expected"), OUTPUTS)
def test_openapi_is_valid_and_true(type_, output, _expected):
    service = giving(output, type_)
    interface = loaded(service).interface
    document = openapi([describe({"name": "made"}, interface)])
    OpenAPIV31SpecValidator(document).validate()
    OpenAPIV2SpecValidator(swagger([describe({"name": "made"}, interface)])).validate()

    content = document["paths"]["/made/predict"]["post"]["responses"]["200"]["content"]
    assert answer(service, b"1")[0] in content
    for media_type in (name for name in content if "*" not in name):
        assert answer(service, b"1", accept=media_type)[0] in (media_type, "NotAcceptable")
    schema = content["application/json"]["schema"]
    root = {**schema, "components": document["components"]}
    Draft202012Validator(root).validate({"prediction": in_json(service)})


def test_a_type_of_inputs_and_outputs_is_described_as_each():
    def predict(self, batch: list[Card]) -> list[Card]:
        return batch

    interface = loaded(service_of(predict)).interface

    assert interface.input_schema == {"$ref": "#/$defs/Card"}
    assert interface.output_schema == {"$ref": "#/$defs/Card-Output"}
    given, got = (
        interface.schema_definitions[name]["properties"]["image"]["properties"]["b64"]
        for name in ("Card", "Card-Output")
    )
    assert (given["contentMediaType"], got["contentMediaType"]) == ("image/*", "image/jpeg")
