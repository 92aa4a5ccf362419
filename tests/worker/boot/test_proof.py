# SPDX-License-Identifier: Apache-2.0
"""Examples, and batches of several sizes, that a model has to answer before it is ready."""

import numpy as np
import pytest
from servekit_archiver import Example, Manifest

from servekit.checkup.comparison import difference
from servekit.errors import BootError
from servekit.ipc.control import BootFailed, Ready
from servekit.worker.boot.proof import batch_of, run_batches, run_examples, samples_of
from tests.worker.batches import echo, loaded, service_of

SIGNATURE = {
    "inputs": [
        {"name": "image", "dtype": "uint8", "shape": [2, -1]},
        {"name": "word", "dtype": "str", "shape": []},
    ]
}


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
        (float("nan"), float("nan"), ""),
        (1.0, float("nan"), ": 1.0, expected NaN (tolerance 1e-06)"),
        (10**400, 10**400, ""),
        (10**400, 1, f": {10**400}"[:62] + ", expected 1 (tolerance 1e-06)"),
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


def manifest(**keys) -> Manifest:
    return Manifest(name="m", service="s:S", **keys)


def _samples(declared, directory, service):
    predictor = loaded(service, has_rows=declared.rows).predictor
    return samples_of(declared, directory, service, predictor)


def recording():
    """Return a service and the list of the batches that it is given."""
    seen = []

    def predict(self, batch):
        seen.append(batch)
        return batch if isinstance(batch, list) else [1] * len(next(iter(batch.values())))

    return predict, seen


def test_each_size_is_predicted_once_with_the_examples_in_turn(tmp_path):
    predict, seen = recording()
    service = service_of(predict)
    samples = _samples(manifest(examples=({"input": 1}, {"input": 2})), tmp_path, service)
    run_batches((1, 3), samples, loaded(service).predictor)

    assert seen == [[1], [1, 2, 1]]


def test_without_examples_inputs_are_zeros_of_the_signature(tmp_path):
    predict, seen = recording()
    service = service_of(predict, SIGNATURE)
    samples = _samples(manifest(), tmp_path, service)
    run_batches((2,), samples, loaded(service).predictor)
    ((image, word),) = (batch.values() for batch in seen)

    assert (image.shape, image.dtype.name, image.any()) == ((2, 2, 1), "uint8", False)
    assert word.tolist() == ["", ""]


@pytest.mark.parametrize(
    "service",
    [
        pytest.param(service_of(echo), id="no signature"),
        pytest.param(
            service_of(echo, SIGNATURE, preprocess=lambda self, request: None),
            id="a preprocess of its own",
        ),
    ],
)
def test_nobody_can_make_inputs_that_only_the_author_knows(tmp_path, service):
    assert _samples(manifest(), tmp_path, service) == []

    with pytest.raises(BootError, match=r"warm_up.batch_sizes: needs an example"):
        run_batches((1,), [], loaded(service).predictor)


def test_a_batch_that_fails_is_named(tmp_path):
    def predict(self, batch):
        return batch if len(batch) < 8 else 1 / 0

    service = service_of(predict)
    samples = _samples(manifest(examples=({"input": 1},)), tmp_path, service)

    with pytest.raises(BootError, match="warm_up: batch of 8: PredictFailed: see the log above"):
        run_batches((4, 8, 16), samples, loaded(service).predictor)


def test_batches_go_round():
    assert batch_of(["a", "b"], 5) == ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize(
    ("sizes", "kind"),
    [
        pytest.param([1, 8], Ready, id="warmed, then ready"),
        pytest.param([1, 30], BootFailed, id="refused where a batch fails"),
    ],
)
def test_a_worker_warms_up_before_it_is_ready(start, sizes, kind):
    worker = start("warm:UpTo8", examples=[{"input": 1}], warm_up={"batch_sizes": sizes})

    assert isinstance(worker.receive(), kind)
    assert worker.log.read_text().count("batch of") == 1 + len(sizes)  # the example is one


@pytest.mark.parametrize("examples", [(), ({"input": [[1, 2], [3, 4], [5, 6]]},)])
def test_batches_of_requests_with_rows_have_the_size_in_rows(tmp_path, examples):
    predict, seen = recording()
    signature = {"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}]}
    service = service_of(predict, signature)
    samples = _samples(manifest(rows=True, examples=examples), tmp_path, service)
    run_batches((1, 4), samples, loaded(service, has_rows=True).predictor)

    assert [batch["x"].shape for batch in seen] == [(1, 2), (4, 2)]
    expected = [[1, 2], [3, 4], [5, 6], [1, 2]] if examples else np.zeros((4, 2)).tolist()
    assert seen[1]["x"].tolist() == expected


def test_an_example_with_rows_is_a_request(tmp_path):
    predict, seen = recording()
    signature = {"inputs": [{"name": "x", "dtype": "float32", "shape": []}]}
    predictor = loaded(service_of(predict, signature), has_rows=True).predictor
    run_examples([Example(input=[1, 2], output=[1, 1])], tmp_path, predictor)

    assert seen[0]["x"].tolist() == [1, 2]
