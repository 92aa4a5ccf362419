# SPDX-License-Identifier: Apache-2.0
"""Image bodies in and out."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from servekit_image.codecs import jpeg, png, webp

from servekit.errors import BodyMalformed

RED = np.full((4, 6, 3), [255, 0, 0], np.uint8)


def saved(array, kind, **how):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, kind, **how)
    return buffer.getvalue()


def bomb(side):
    """A PNG of some bytes that claims a square of that side."""
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk + b"\0\0\0\0IEND\xaeB`\x82"


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    return saved(RED, "JPEG", exif=exif)


@pytest.mark.parametrize(
    ("codec", "body", "expected"),
    [
        pytest.param(png, saved(RED, "PNG"), RED, id="PNG"),
        pytest.param(webp, saved(RED, "WEBP", lossless=True), RED, id="WebP"),
        pytest.param(png, saved(RED[:, :, 0], "PNG"), RED[:, :, [0, 0, 0]], id="grey is spread"),
        pytest.param(
            png, saved(np.dstack([RED, RED[:, :, 1]]), "PNG"), RED, id="transparency is dropped"
        ),
        pytest.param(
            png,
            saved(np.full((2, 2), 0x80FF, np.uint16), "PNG"),
            np.full((2, 2, 3), 0x80, np.uint8),
            id="16-bit grey is scaled",
        ),
    ],
)
def test_decode(codec, body, expected):
    decoded = codec.decode(body, {})

    assert decoded.dtype == np.uint8
    assert decoded.tolist() == expected.tolist()


def test_a_jpeg_is_turned_upright():
    decoded = jpeg.decode(turned(), {})

    assert decoded.shape == (6, 4, 3)
    assert decoded.mean(axis=(0, 1)) == pytest.approx([255, 0, 0], abs=3)


@pytest.mark.parametrize(
    ("codec", "body", "message"),
    [
        pytest.param(png, b"", "not a readable PNG", id="empty"),
        pytest.param(png, b"\x89PNG\r\n\x1a\n rubbish", "not a readable PNG", id="rubbish"),
        pytest.param(jpeg, turned()[:400], "not a readable JPEG", id="cut short"),
        pytest.param(jpeg, saved(RED, "PNG"), "not a readable JPEG", id="another format"),
        pytest.param(png, bomb(60_000), "over the limit of 67108864 pixels", id="bomb"),
        pytest.param(png, bomb(8_200), "over the limit of 67108864 pixels", id="just too large"),
    ],
)
def test_a_body_that_is_no_image_is_refused(codec, body, message):
    with pytest.raises(BodyMalformed, match=message):
        codec.decode(body, {})


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 3), (3, 5, 4)])
def test_encode_gives_the_png_of_an_array(shape):
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)

    with Image.open(io.BytesIO(png.encode(array))) as image:
        assert np.array(image).tolist() == array.tolist()


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 3), (3, 5, 4)])
@pytest.mark.parametrize(("codec", "kind"), [(jpeg, "JPEG"), (webp, "WEBP")])
def test_encode_gives_about_the_array_in_the_other_formats(codec, kind, shape):
    array = np.full(shape, 255, np.uint8)

    with Image.open(io.BytesIO(codec.encode(array))) as image:
        assert image.format == kind
        assert np.asarray(image.convert("L")).min() >= 254
        assert image.size == (5, 3)


@pytest.mark.parametrize("codec", [png, jpeg, webp])
@pytest.mark.parametrize(
    "output",
    [
        pytest.param(RED.astype(np.float32), id="floats"),
        pytest.param(RED[0, 0], id="one row"),
        pytest.param(RED[:, :, :2], id="two channels"),
        pytest.param({"a": 1}, id="no array"),
        pytest.param([[1], [2, 3]], id="lists of unequal lengths"),
        pytest.param(RED[:0], id="no pixels"),
        pytest.param(RED[None], id="a batch of images"),
    ],
)
def test_encode_refuses_what_is_no_image(codec, output):
    with pytest.raises(TypeError, match=r"image/\w+ needs"):
        codec.encode(output)
