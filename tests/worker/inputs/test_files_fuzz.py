# SPDX-License-Identifier: Apache-2.0
"""Files of any bytes become an image or audio, or a refusal that names the field."""

import io
import struct
import wave

import msgspec
import numpy as np
import PIL.Image
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from servekit.types import Audio, Image, MediaRefused
from servekit.types.audio import read_audio
from servekit.types.images import FORMATS, read_image
from tests.worker.batches import answer, service_of

PIXELS = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
MODES = ("RGB", "RGBA", "L", "LA", "P", "1", "I;16", "CMYK")
FEW = settings(max_examples=300, deadline=None)


def picture(kind, mode, **how):
    file = io.BytesIO()
    PIL.Image.fromarray(PIXELS).convert(mode).save(file, kind, **how)
    return file.getvalue()


def pictures():
    """Yield a picture of every format in every mode that it has."""
    for kind in FORMATS:
        for mode in MODES:
            try:
                yield picture(kind, mode)
            except (OSError, ValueError):
                continue
    exif = PIL.Image.Exif()
    exif[0x0112], exif[0x8769] = 6, {1: 2}
    yield picture("JPEG", "RGB", exif=exif)
    yield picture("GIF", "P", save_all=True, append_images=[PIL.Image.fromarray(PIXELS)])
    yield picture("PNG", "RGB", save_all=True, append_images=[PIL.Image.fromarray(PIXELS)])


def sound(width=2, channels=1):
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(channels)
        written.setsampwidth(width)
        written.setframerate(8000)
        written.writeframes(bytes(range(width * channels * 10)))
    return file.getvalue()


def header(layout=1, channels=1, rate=8000, bits=16, data=b"\0" * 40):
    """Return a WAV file that says so of itself."""
    block = struct.pack("<HHIIHH", layout, channels, rate, rate * 2 % 2**32, 2, bits)
    chunks = b"fmt " + struct.pack("<I", 16) + block + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks


@st.composite
def damaged(draw, files):
    """Return one of *files* with some bytes changed, gone or doubled, most at its beginning."""
    body = bytearray(draw(st.sampled_from(files)))
    for _ in range(draw(st.integers(0, 6))):
        place = draw(st.integers(0, min(64, len(body))) | st.integers(0, len(body)))
        length = draw(st.sampled_from([0, 1, 1, 4, 9]))
        edge = [
            b"",
            b"\0",
            b"\xff",
            b"\0" * 4,
            b"\xff" * 4,
            b"\x80\0\0\0",
            b"\1\0\0\0",
            b"\0\0\0\5",
        ]
        body[place : place + length] = draw(st.sampled_from(edge) | st.binary(max_size=8))
    return bytes(body)


SOUNDS = [sound(width, channels) for width in (1, 2, 3, 4) for channels in (1, 3)]
ODD_SOUNDS = {
    "a chunk that nobody knows": b"RIFF4\0\0\0WAVEfm\1\0@\x80\0\0@",
    "samples of 40 bits": header(bits=40),
    "samples of 0 bits": header(bits=0),
    "samples of 65,535 bits": header(bits=65_535),
    "no channels": header(channels=0),
    "65,535 channels": header(channels=65_535),
    "no rate": header(rate=0),
    "another layout": header(layout=0x55),
    "a layout that says more": header(layout=0xFFFE),
    "nothing but its name": b"RIFF\0\0\0\0WAVE",
    "cut after the name of a chunk": b"RIFF\x24\0\0\0WAVEfmt ",
    "a chunk longer than the file": b"RIFF\x24\0\0\0WAVEfmt \xff\xff\xff\xff",
    "data before its layout": b"RIFF\x24\0\0\0WAVEdata\4\0\0\0\1\2\3\4",
    "two layouts": header() + header()[12:],
}


@FEW
@given(damaged(list(pictures())) | st.binary(max_size=200))
def test_any_bytes_are_a_picture_or_refused(body):
    try:
        found = read_image(body)
    except MediaRefused:
        return
    assert np.asarray(found.convert("RGB")).shape == (found.height, found.width, 3)


@FEW
@given(damaged(SOUNDS + list(ODD_SOUNDS.values())) | st.binary(max_size=200))
@example(b"")
def test_any_bytes_are_a_sound_or_refused(body):
    try:
        found = read_audio(body)
    except MediaRefused:
        return
    assert found.samples.dtype == np.float32
    assert found.samples.ndim == 2
    assert found.sample_rate >= 1


def typed(type_):
    def predict(self, batch):
        return [1] * len(batch)

    predict.__annotations__["batch"] = list[type_]
    return service_of(predict)


class Clip(msgspec.Struct):
    sound: Audio


@pytest.mark.parametrize("body", ODD_SOUNDS.values(), ids=ODD_SOUNDS)
@pytest.mark.parametrize("has_soundfile", [True, False], ids=["with", "without"])
def test_a_malformed_sound_is_the_clients_fault(monkeypatch, body, has_soundfile):
    if not has_soundfile:
        monkeypatch.setitem(__import__("sys").modules, "soundfile", None)
    in_json = msgspec.json.encode({"sound": {"b64": body}})
    found = {
        answer(typed(Audio), body, "audio/wav")[0],
        answer(typed(Audio), body, "application/octet-stream")[0],
        answer(typed(Clip), in_json)[0],
    }

    assert found in ({"InputError"}, {"application/json"})


@pytest.mark.parametrize("kind", FORMATS)
def test_a_picture_cut_short_is_the_clients_fault(kind):
    body = picture(kind, "RGB")
    for end in range(0, len(body) - 30, 7):
        name, _ = answer(typed(Image), body[:end], f"image/{kind.lower()}")
        assert name == "InputError"
