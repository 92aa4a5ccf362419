# SPDX-License-Identifier: Apache-2.0
"""What ``Accept: image/png`` gives for an output that is no image."""

import numpy as np
import pytest
from servekit_image import hooks

from servekit.errors import NotAcceptable
from servekit.plugins import create_plugin_manager
from servekit.worker.codecs.table import CodecTable
from servekit.worker.prediction.negotiation import Plans
from servekit.worker.prediction.response_writer import write


@pytest.fixture(scope="module")
def plans():
    return Plans(CodecTable(create_plugin_manager(hooks, discover=False)))


@pytest.mark.parametrize(
    ("output", "media_type"),
    [
        pytest.param(np.zeros((2, 3), np.uint8), "image/png", id="an image is a PNG"),
        pytest.param(np.zeros((2, 3, 4), np.uint8), "image/png", id="an image with alpha is one"),
        pytest.param([[0, 1]], "application/json", id="numbers that are no image are JSON"),
        pytest.param({"a": 1}, "application/json", id="an object is JSON"),
    ],
)
def test_the_next_of_accept_holds_what_is_no_image(plans, output, media_type):
    assert write(plans[b"image/png, application/json;q=0.5"], output)[0] == media_type


@pytest.mark.parametrize("output", [[[0, 1]], [[1], [2, 3]], {"a": 1}, "text"])
def test_a_client_that_takes_nothing_else_is_told_so(plans, output):
    with pytest.raises(NotAcceptable):
        write(plans[b"image/png"], output)
