# SPDX-License-Identifier: Apache-2.0
"""The helpers of MMS for pictures, labels, words and shapes."""

from base64 import b64decode

import numpy as np
import pytest
from servekit_mms import images
from servekit_mms.model_service import check_input_shape
from servekit_mms.scores import encode_sentences, top_probability

from .test_model_service import jpeg


def test_pictures_become_the_arrays_that_mms_makes():
    pixels = images.read(jpeg(6, 4))

    assert (pixels.shape, pixels.dtype) == ((4, 6, 3), np.uint8)
    assert images.read(jpeg(6, 4), flag=0).shape == (4, 6, 1)
    assert images.read(jpeg(6, 4), to_rgb=False)[0, 0, 2] > 200
    assert images.transform_shape(pixels).shape == (1, 3, 4, 6)
    assert images.transform_shape(pixels, "NHWC").shape == (1, 4, 6, 3)
    assert images.resize(pixels, 3, 2).shape == (2, 3, 3)
    assert images.resize(pixels[:, :, :1], 3, 2).shape == (2, 3, 1)
    assert images.fixed_crop(pixels, 1, 0, 2, 3).shape == (3, 2, 3)
    assert images.fixed_crop(pixels, 1, 0, 2, 3, (5, 4)).shape == (4, 5, 3)
    normal = images.color_normalize(pixels, [1, 2, 3], [2, 2, 2])
    assert (normal.dtype, normal[0, 0, 0]) == (np.float32, (pixels[0, 0, 0] - 1.0) / 2)


@pytest.mark.parametrize(("flag", "order"), [(1, "CHW"), (1, "HWC"), (0, "CHW")])
def test_a_picture_that_is_written_can_be_read(flag, order):
    pixels = np.full((4, 6, 3 if flag else 1), 200, "float32")
    text = images.write(pixels.transpose(2, 0, 1) if order == "CHW" else pixels, flag, "png", order)

    assert np.array_equal(images.read(b64decode(text), flag), pixels)


def test_labels_and_words():
    assert top_probability(np.array([[0.1, 0.7, 0.2]]), "abc", top=2) == [
        {"probability": 0.7, "class": "b"},
        {"probability": 0.2, "class": "c"},
    ]
    assert encode_sentences([["a", "b"], ["a"]], invalid_label=0) == (
        [[1, 2], [1]], {"\n": 0, "a": 1, "b": 2}
    )  # fmt: skip
    with pytest.raises(AssertionError, match="Unknown token c"):
        encode_sentences([["c"]], {"a": 1})


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ((), "must be a list"),
        ([], "1 expected but got 0"),
        ([np.zeros(3)], "Shape dimension of input data mismatches"),
        ([np.zeros((1, 4, 9))], "different shape"),
        ([np.zeros((7, 3, 9))], None),
    ],
)
def test_shapes_are_checked_in_the_words_of_mms(arrays, reason):
    declared = {"inputs": [{"data_name": "data", "data_shape": [0, 3, 0]}]}
    if reason is None:
        check_input_shape(arrays, declared)
        return

    with pytest.raises(AssertionError, match=reason):
        check_input_shape(arrays, declared)
