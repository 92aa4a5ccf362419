# SPDX-License-Identifier: Apache-2.0
"""bfloat16, a dtype of ml_dtypes, in signatures, in ``Array`` and in bodies."""

import json
import sys
from typing import Annotated

import numpy as np
import pytest

from servekit import Array
from servekit.errors import BootError
from servekit.worker.codecs.json import codec as json_codec
from servekit.worker.codecs.msgpack import codec as msgpack_codec
from servekit.worker.codecs.npy import codec as npy_codec
from servekit.worker.codecs.value import value
from servekit.worker.inputs.tensors import TensorReader, TensorRefused
from tests.worker.batches import answer, prediction, service_of

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DECLARED = {"name": "x", "dtype": "bfloat16", "shape": [-1]}
#: the largest one is about 3.39e38; a number from there on rounds to infinity
NUMBERS = [0.1, -2.5, 0, 3.38e38]


def doubled(self, batch):
    """Return what came, twice."""
    assert batch["x"].dtype == BFLOAT16
    return batch["x"] * 2


@pytest.fixture
def service():
    """Return a service that takes and gives bfloat16."""
    return service_of(doubled, {"inputs": [DECLARED], "outputs": [DECLARED]})


@pytest.mark.parametrize("count", [3, 2000], ids=["short", "long enough for simdjson"])
@pytest.mark.parametrize("shape", [[-1], [1, -1]])
def test_all_paths_of_json_make_the_same_array(service, count, shape):
    declared = {**DECLARED, "shape": shape}
    numbers = np.random.default_rng(1).normal(size=count).tolist()
    nested = numbers if len(shape) == 1 else [numbers]
    seen = []

    def keep(self, batch):
        seen.append(batch["x"])
        return [0]

    prediction(service_of(keep, {"inputs": [declared], "outputs": []}), nested)

    expected = np.array(nested, np.float32).astype(BFLOAT16)
    assert seen[0].dtype == BFLOAT16
    assert np.array_equal(seen[0][0], expected)


def test_outputs_are_numbers_of_json(service):
    assert prediction(service, [1.5, -4]) == [3, -8]


@pytest.mark.parametrize(
    "given", [np.array(NUMBERS, BFLOAT16), np.array(NUMBERS), np.array(NUMBERS, np.float32)]
)
def test_floats_of_other_sizes_are_cast(given):
    made = TensorReader(DECLARED).from_value(given)

    assert made.dtype == BFLOAT16
    assert np.array_equal(made, np.array(NUMBERS, np.float32).astype(BFLOAT16))


def test_integers_and_lists_are_cast():
    for given in (np.array([1, 2]), [1, 2.0], [1]):
        assert TensorReader(DECLARED).from_value(given).dtype == BFLOAT16


@pytest.mark.parametrize("given", [[1, 3.4e38], np.array([1, 3.4e38]), ["a"], [True]])
def test_other_values_are_refused(given):
    with pytest.raises(TensorRefused) as refused:
        TensorReader(DECLARED).from_value(given)

    assert (
        "is not bfloat16" in refused.value.message or "expected bfloat16" in refused.value.message
    )


def test_infinity_stays_infinity():
    assert np.isinf(TensorReader(DECLARED).from_value(np.array([np.inf]))).all()


def test_bfloat16_is_cast_to_a_declared_float():
    declared = {**DECLARED, "dtype": "float32"}
    given = np.array([0.5], BFLOAT16)

    assert TensorReader(declared).from_value(given).dtype == np.float32
    with pytest.raises(TensorRefused, match="expected int64"):
        TensorReader({**DECLARED, "dtype": "int64"}).from_value(given)


def test_raw_bytes_are_its_elements(service):
    body = np.array([1, 2], BFLOAT16).tobytes()

    _, text = answer(service, body, "application/octet-stream")
    assert json.loads(text) == {"prediction": [2, 4]}


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("codec", [msgpack_codec, value])
def test_arrays_travel_as_they_are(codec, dtype):
    array = np.array([[0.5, -2]], getattr(ml_dtypes, dtype))
    found = codec.decode(codec.encode({"a": array}), {})["a"]

    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()


def test_json_and_npy_have_them_as_float32():
    array = np.array([0.1, 2], BFLOAT16)

    assert json_codec.encode([array, array[0], array[:0]]) == (
        b"[[0.100097656,2.0],0.10009765625,[]]"
    )
    assert npy_codec.encode(array) == npy_codec.encode(array.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_json_has_float8_as_numbers(dtype):
    array = np.array([[0.5, 2]], getattr(ml_dtypes, dtype))

    assert json_codec.encode([array, array[0, 0], array[0]]) == b"[[[0.5,2.0]],0.5,[0.5,2.0]]"
    assert npy_codec.encode(array) == npy_codec.encode(array.astype(np.float32))
    assert TensorReader(DECLARED).from_value(array[0]).tolist() == [0.5, 2]


def test_an_annotation_may_declare_it():
    def predict(self, batch: list[Annotated[np.ndarray, Array("bfloat16", (2,))]]):
        return [str(each.dtype) for each in batch]

    assert prediction(service_of(predict), b"[1, 2]") == "bfloat16"


def test_batches_are_stacked(service):
    from tests.worker.batches import answers
    from tests.worker.worker_process import item

    found = answers(service, item([1, 2]), item([3, 4]), item([5]))

    assert [json.loads(body)["prediction"] for _, body in found] == [[2, 4], [6, 8], [10]]


def test_without_ml_dtypes_the_boot_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)

    with pytest.raises(BootError, match="x: bfloat16 needs ml_dtypes, pip install ml_dtypes"):
        TensorReader(DECLARED)
