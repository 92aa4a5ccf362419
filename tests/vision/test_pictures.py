# SPDX-License-Identifier: Apache-2.0
"""Functions on pictures: sizes, arrays and boxes."""

import io

import numpy as np
import pytest
from PIL import Image

from servekit import InputError
from servekit.vision import (
    center_crop,
    decode_image,
    draw_boxes,
    normalize,
    resize_exact,
    resize_shorter,
    to_array,
)


def picture(width, height, mode="RGB"):
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(pixels).convert(mode)


@pytest.mark.parametrize(
    ("width", "height", "size", "expected"),
    [
        pytest.param(40, 20, 10, (20, 10), id="the height is shorter"),
        pytest.param(20, 41, 10, (10, 20), id="the longer side is rounded down"),
        pytest.param(3, 3, 7, (7, 7), id="small pictures grow"),
    ],
)
def test_the_shorter_side_gets_the_size(width, height, size, expected):
    assert resize_shorter(picture(width, height), size).size == expected


def test_a_picture_too_narrow_to_be_resized_is_refused():
    with pytest.raises(InputError, match="1 x 2000000 pixels is too narrow to resize to 224"):
        resize_shorter(Image.new("L", (1, 2_000_000)), 224)


def test_stretching_ignores_the_proportions():
    assert resize_exact(picture(40, 20), (5, 30)).size == (30, 5)


@pytest.mark.parametrize(
    ("width", "height", "corner"),
    [
        pytest.param(10, 8, (3, 2), id="the middle"),
        pytest.param(9, 7, (2, 2), id="odd rests are rounded to even"),
    ],
)
def test_the_center_is_cut_out(width, height, corner):
    image = picture(width, height)
    left, top = corner

    assert (
        center_crop(image, (4, 4)).tobytes() == image.crop((left, top, left + 4, top + 4)).tobytes()
    )


def test_black_is_added_around_a_small_picture():
    grown = np.asarray(center_crop(Image.new("L", (2, 1), 255), (3, 4)))

    assert grown.tolist() == [[0, 0, 0, 0], [0, 255, 255, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("color", "layout", "expected"),
    [
        pytest.param("rgb", "nchw", [[[10]], [[20]], [[30]]], id="planes"),
        pytest.param("bgr", "nchw", [[[30]], [[20]], [[10]]], id="planes, blue first"),
        pytest.param("bgr", "nhwc", [[[30, 20, 10]]], id="pixels, blue first"),
        pytest.param("gray", "nhwc", [[[18]]], id="one channel"),
    ],
)
def test_colors_and_layouts(color, layout, expected):
    pixels = to_array(Image.new("RGB", (1, 1), (10, 20, 30)), color, layout)

    assert pixels.dtype == np.uint8
    assert pixels.tolist() == expected


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "HSV", "F", "I;16"])
def test_every_mode_becomes_three_channels(mode):
    image = Image.new(mode, (5, 4))

    assert to_array(image).shape == (3, 4, 5)


def test_sixteen_bits_of_gray_become_eight():
    deep = Image.fromarray(np.array([[0, 256, 65535]], np.uint16))

    assert to_array(deep, "gray").tolist() == [[[0, 1, 255]]]


def test_transparency_is_ignored():
    assert to_array(Image.new("RGBA", (1, 1), (10, 20, 30, 0))).ravel().tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({}, [0, 1], id="0 to 1"),
        pytest.param({"scale": (-1, 1)}, [-1, 1], id="-1 to 1"),
        pytest.param({"mean": [0.5], "std": [0.25]}, [-2, 2], id="mean and std"),
    ],
)
def test_numbers_of_black_and_white(arguments, expected):
    black_and_white = np.array([[[0, 255]]], np.uint8)
    values = normalize(black_and_white, **arguments)

    assert values.dtype == np.float32
    assert values.ravel() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_each_channel_has_its_own_mean_and_std(layout):
    white = to_array(Image.new("RGB", (2, 2), "white"), layout=layout)
    values = normalize(white, mean=[0, 0.5, 1], std=[1, 0.5, 2], layout=layout)
    channels = values if layout == "nchw" else values.transpose(2, 0, 1)

    assert channels.reshape(3, -1).max(axis=1) == pytest.approx([1, 1, 0], abs=1e-6)


def test_files_are_decoded_upright_and_others_refused():
    file, turned = io.BytesIO(), Image.Exif()
    turned[0x0112] = 6
    picture(4, 2).save(file, "JPEG", exif=turned)

    assert decode_image(file.getvalue()).size == (2, 4)
    with pytest.raises(InputError, match="not a readable PNG or JPEG"):
        decode_image(b"GIF8")


def test_boxes_are_drawn_on_a_copy():
    image = Image.new("L", (40, 30))
    drawn = draw_boxes(image, [(5, 5, 20, 25)], ["cat"], color="#00ff00", width=1)

    assert image.getextrema() == (0, 0)
    assert drawn.getpixel((5, 15)) == (0, 255, 0)
    assert drawn.getpixel((30, 15)) == (0, 0, 0)
    assert (
        drawn.tobytes() != draw_boxes(image, [(5, 5, 20, 25)], color="#00ff00", width=1).tobytes()
    )
