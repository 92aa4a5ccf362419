# SPDX-License-Identifier: Apache-2.0
"""What ``[options.image]`` makes of pictures, compared with torchvision."""

import io
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from PIL import Image

from servekit import InputError
from servekit.errors import BootError
from servekit.vision import ImageInput, ImageOptions

NCHW, NHWC = (3, 32, 32), (32, 32, 3)
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


def picture(width, height):
    """Return a picture with gradients and noise, as photos have."""
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    smooth = np.stack([x, y, (x + y) / 2], axis=-1) * 200
    noise = np.random.default_rng(width * height).uniform(0, 55, smooth.shape)
    return Image.fromarray((smooth + noise).astype(np.uint8))


@pytest.mark.parametrize(
    ("shape", "options", "expected"),
    [
        pytest.param(NCHW, {}, (3, 32, 32), id="channels first"),
        pytest.param(NHWC, {}, (32, 32, 3), id="channels last"),
        pytest.param((1, 8, 4), {}, (1, 8, 4), id="gray"),
        pytest.param((3, -1, -1), {"size": (8, 4)}, (3, 8, 4), id="any size"),
        pytest.param((-1, -1, 3), {"size": (8, 4)}, (8, 4, 3), id="any size, channels last"),
        pytest.param(
            (-1, -1, -1), {"size": (8, 4), "layout": "nhwc", "color": "gray"}, (8, 4, 1), id="any"
        ),
        pytest.param((3, 9, 3), {"layout": "nchw"}, (3, 9, 3), id="both ends could be channels"),
        pytest.param(NCHW, {"resize": "exact"}, NCHW, id="stretched"),
        pytest.param(NCHW, {"resize": 40}, NCHW, id="resized to more, then cut"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_the_input_has_the_shape_of_the_model(shape, options, expected, dtype):
    images = ImageInput(ImageOptions(**options), shape, dtype)
    batch = images.batch([picture(50, 40), picture(10, 70), Image.new("LA", (3, 3))])

    assert (batch.shape, batch.dtype) == ((3, *expected), np.dtype(dtype))
    assert images.geometry.shape == expected


@pytest.mark.parametrize(
    ("shape", "options", "dtype", "message"),
    [
        pytest.param((3, -1, -1), {}, "float32", "size: needed", id="no size"),
        pytest.param(
            NCHW, {"size": [16, 32]}, "float32", "size: [16, 32] does not", id="other size"
        ),
        pytest.param(
            (4, 8), {}, "float32", "shape [4, 8] is not that of a picture", id="no picture"
        ),
        pytest.param((3, 9, 3), {}, "float32", 'layout: say "nchw" or "nhwc"', id="two layouts"),
        pytest.param((4, 9, 9), {}, "float32", "neither axis", id="no layout"),
        pytest.param(NCHW, {"layout": "nhwc"}, "float32", "layout: nhwc does not fit", id="layout"),
        pytest.param(NCHW, {"color": "gray"}, "float32", "color: gray does not fit", id="color"),
        pytest.param(NCHW, {"resize": 16}, "float32", "resize: 16 is below", id="resize"),
        pytest.param(NCHW, {"mean": [1, 2]}, "float32", "mean: 2 numbers for 3", id="mean"),
        pytest.param(NCHW, {"std": [1, 0, 1]}, "float32", "std: contains 0", id="std"),
        pytest.param(NCHW, {"scale": [1, 1]}, "float32", "scale: black and white", id="scale"),
        pytest.param(NCHW, {"scale": [0, 1]}, "uint8", "scale: the input takes bytes", id="bytes"),
        pytest.param(
            NCHW, {"mean": [0.5]}, "uint8", "mean: the input takes bytes", id="bytes, mean"
        ),
        pytest.param(NCHW, {}, "int64", "has the type int64", id="dtype"),
    ],
)
def test_contradictions_are_refused_with_their_key(shape, options, dtype, message):
    with pytest.raises(BootError) as refused:
        ImageInput(msgspec.convert(options, ImageOptions), shape, dtype)

    assert str(refused.value).startswith("[options.image]")
    assert message in str(refused.value)


def test_a_long_and_narrow_picture_costs_no_more_than_others():
    tall = Image.fromarray(np.repeat(np.arange(256, dtype=np.uint8), 4000)[:, np.newaxis])
    batch = ImageInput(ImageOptions(), NCHW).batch([tall])

    assert batch.mean() * 255 == pytest.approx(127.5, abs=1)


def test_files_are_taken_and_what_is_none_is_refused():
    file = io.BytesIO()
    picture(40, 40).save(file, "PNG")
    images = ImageInput(ImageOptions(), NCHW)

    assert (images.batch([file.getvalue()]) == images.batch([picture(40, 40)])).all()
    with pytest.raises(InputError):
        images.batch([b"text"])


def test_samples_differ_and_are_always_the_same():
    images = ImageInput(ImageOptions(), NCHW)
    black, noise = images.samples()

    assert (black.max(), len(np.unique(noise)) > 100) == (0, True)
    assert (images.samples()[1] == noise).all()


def test_importing_the_options_imports_neither_numpy_nor_pillow():
    code = "import servekit.vision as v, sys; v.ImageOptions, v.image_geometry; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"numpy", "PIL"} & set(loaded)


# ------------------------------------------------------------ torchvision is the oracle


@pytest.fixture(scope="module")
def transforms(torchvision):
    from torchvision.transforms import v2

    return v2


@pytest.mark.slow
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest", "lanczos"])
@pytest.mark.parametrize("size", [(640, 427), (427, 640), (224, 224), (100, 75), (1001, 333)])
@pytest.mark.parametrize("resize", [256, "cover", "exact"])
def test_pictures_are_as_torchvision_makes_them(transforms, interpolation, size, resize):
    how = transforms.InterpolationMode(interpolation)
    first = (224, 224) if resize == "exact" else 224 if resize == "cover" else resize
    steps = [transforms.Resize(first, how), transforms.CenterCrop(224), transforms.PILToTensor()]
    wanted = transforms.Compose(steps)(picture(*size)).numpy()
    options = ImageOptions(resize=resize, interpolation=interpolation)
    made = ImageInput(options, (3, 224, 224), "uint8").batch([picture(*size)])[0]

    assert (made == wanted).all()


@pytest.mark.slow
def test_the_recipe_of_imagenet_gives_the_numbers_of_torchvision(transforms):
    import torch

    steps = [
        transforms.Resize(256),
        transforms.CenterCrop(224),
        transforms.PILToTensor(),
        transforms.ToDtype(torch.float32, scale=True),
        transforms.Normalize(**IMAGENET),
    ]
    file = io.BytesIO()
    picture(640, 427).save(file, "JPEG")
    wanted = transforms.Compose(steps)(Image.open(file)).numpy()
    made = ImageInput(ImageOptions(resize=256, **IMAGENET), (3, 224, 224)).batch([file.getvalue()])

    assert np.abs(made[0] - wanted).max() < 1e-5
