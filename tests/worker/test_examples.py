# SPDX-License-Identifier: Apache-2.0
"""The examples of a manifest, run as requests."""

import numpy as np
import pytest
from servekit_archiver import Example

from servekit.checkup.comparison import difference
from servekit.errors import BootError
from servekit.worker.boot.proof import run_examples
from tests.worker.batches import echo, loaded, service_of


@pytest.mark.parametrize(
    ("found", "expected", "wrong"),
    [
        (1.0000001, 1, ""),
        (1.1, 1, ": 1.1, expected 1 (tolerance 1e-06)"),
        (True, 1, ": true, expected 1 (tolerance 1e-06)"),
        ({"a": [1, 2]}, {"a": [1, 2]}, ""),
        ({"a": [1, 2]}, {"a": [1, 3]}, ".a[1]: 2, expected 3 (tolerance 1e-06)"),
        ([1], [1, 2], ": [1], expected [1,2]"),
        ({"a": 1}, {"b": 1}, ': {"a":1}, expected {"b":1}'),
        ("a", "b", ': "a", expected "b"'),
        (None, 1, ": null, expected 1 (tolerance 1e-06)"),
    ],
)
def test_the_difference_says_where(found, expected, wrong):
    assert difference(found, expected, 1e-6) == wrong


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        (Example(input=[1], output=[1]), None),
        (Example(input=[1.0], output=[1.4], tolerance=0.5), None),
        (Example(input=[1.0], output=[1.4]), "output[0]: 1.0, expected 1.4"),
        (Example(input_file="a.json", output={"a": 1}), None),
        (Example(input_file="a.npy", output=[1, 2]), None),
        (Example(input_file="a.bin"), None),
        (Example(input_file="a.bin", content_type="text/plain", output="1"), None),
        (Example(input_file="a.bin", content_type="text/html"), "UnknownMediaType: Content-Type"),
        (Example(input_file="a.bin", content_type="application/x-npy"), "BodyMalformed: body"),
    ],
)
def test_examples_are_sent_as_a_client_sends_them(tmp_path, example, reason):
    (tmp_path / "a.json").write_text('{"a": 1}')
    (tmp_path / "a.bin").write_text("1")
    np.save(tmp_path / "a.npy", np.array([1, 2]))
    predictor = loaded(service_of(echo)).predictor

    if reason is None:
        run_examples([example], tmp_path, predictor)
    else:
        with pytest.raises(BootError, match="example 1: ") as caught:
            run_examples([example], tmp_path, predictor)
        assert reason in str(caught.value)


def test_an_example_that_raises_points_to_the_log():
    predictor = loaded(service_of(lambda self, batch: 1 / 0)).predictor

    with pytest.raises(BootError, match="example 1: PredictFailed: see the log above"):
        run_examples([Example(input=1)], None, predictor)
