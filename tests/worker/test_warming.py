# SPDX-License-Identifier: Apache-2.0
"""Batches of several sizes before a model is ready, and what they are made of."""

import pytest
from servekit_archiver import Manifest

from servekit.errors import BootError
from servekit.ipc.control import BootFailed, Ready
from servekit.worker.boot.proof import batch_of, run_batches, samples_of
from tests.worker.batches import echo, loaded, service_of

SIGNATURE = {
    "inputs": [
        {"name": "image", "dtype": "uint8", "shape": [2, -1]},
        {"name": "word", "dtype": "str", "shape": []},
    ]
}


def manifest(**keys) -> Manifest:
    return Manifest(name="m", service="s:S", **keys)


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
    samples = samples_of(manifest(examples=({"input": 1}, {"input": 2})), tmp_path, service)
    run_batches((1, 3), samples, loaded(service).predictor)

    assert seen == [[1], [1, 2, 1]]


def test_without_examples_inputs_are_zeros_of_the_signature(tmp_path):
    predict, seen = recording()
    service = service_of(predict, SIGNATURE)
    samples = samples_of(manifest(), tmp_path, service)
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
    assert samples_of(manifest(), tmp_path, service) == []

    with pytest.raises(BootError, match=r"warm_up.batch_sizes: needs an example"):
        run_batches((1,), [], loaded(service).predictor)


def test_a_batch_that_fails_is_named(tmp_path):
    def predict(self, batch):
        return batch if len(batch) < 8 else 1 / 0

    service = service_of(predict)
    samples = samples_of(manifest(examples=({"input": 1},)), tmp_path, service)

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
