# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries are arrays wherever those of NumPy are."""

import array
import collections
import io
import json
from typing import Annotated

import msgspec
import numpy as np
import pytest

from servekit import Array, Response
from servekit.errors import ResultNotEncodable
from servekit.worker.codecs.foreign_arrays import as_array, known_arrays
from servekit.worker.codecs.json import codec as json_codec
from servekit.worker.codecs.msgpack import codec as msgpack_codec
from servekit.worker.codecs.npy import codec as npy_codec
from servekit.worker.codecs.value import value, values
from servekit.worker.prediction.objects import with_known_arrays
from tests.worker.batches import answer, answers, loaded, prediction, service_of
from tests.worker.worker_process import item

NUMBERS = np.array([[0.1, 2, 3], [4, 5, 6]], np.float32)


class WithArray:
    """Offers ``__array__``, as jax and pandas do."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __array__(self, dtype=None, copy=None):
        return self.numbers


class WithDlpack:
    """Offers DLPack only."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __dlpack__(self, **options):
        return self.numbers.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.numbers.__dlpack_device__()


class OnDevice:
    """Refuses to be copied without being asked, as cupy does."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion is not allowed. Use .get()\nand more")


def as_torch(numbers):
    return pytest.importorskip("torch").from_numpy(numbers)


KINDS = {"__array__": WithArray, "DLPack": WithDlpack, "torch": as_torch}


@pytest.fixture(params=["__array__", "DLPack", pytest.param("torch", marks=pytest.mark.slow)])
def foreign(request):
    """Return NUMBERS as an array of another library."""
    return KINDS[request.param](NUMBERS)


def test_the_memory_is_shared(foreign):
    assert np.shares_memory(as_array(foreign), NUMBERS)


def test_a_buffer_is_an_array():
    found = as_array(array.array("h", [1, -2]))

    assert (found.dtype, found.tolist()) == ("int16", [1, -2])


@pytest.mark.parametrize(
    "other",
    [None, b"ab", memoryview(b"ab"), "a", [1], object(), np.float64(1), collections.deque()],
)
def test_other_values_are_not_arrays(other):
    assert as_array(other) is None
    assert known_arrays(other) is other


def test_lists_and_mappings_are_copied_only_if_they_hold_one(foreign):
    plain = {"a": [1, {"b": None}, NUMBERS, np.float64(2)]}
    mixed = known_arrays({"a": [foreign, "x"], "b": plain})

    assert known_arrays(plain) is plain
    assert type(mixed["a"][0]) is np.ndarray
    assert mixed["b"] is plain


def test_outputs_are_written_as_those_of_numpy(foreign):
    output = {"a": [foreign], "b": 1}
    expected = {"a": [NUMBERS], "b": 1}

    for codec in (json_codec, msgpack_codec, value):
        assert codec.encode(output) == codec.encode(expected)
    assert npy_codec.encode(foreign) == npy_codec.encode(NUMBERS)
    assert values.encode(foreign) == values.encode(NUMBERS)


def test_nan_in_one_is_not_json():
    with pytest.raises(ResultNotEncodable, match="NaN or infinity is not JSON"):
        json_codec.encode([WithArray(np.array([1, np.nan]))])


def test_a_whole_batch_may_be_one(foreign):
    made = service_of(lambda self, batch: foreign)
    found = answers(made, item(1), item(2))

    assert [json.loads(body)["prediction"] for _, body in found] == json.loads(
        msgspec.json.encode([[0.1, 2, 3], [4, 5, 6]])
    )
    assert answers(made, item(1))[0][0] == "WrongBatchLength"


def test_outputs_by_name_may_be_some(foreign):
    signature = {"inputs": [{"name": "x", "dtype": "float32", "shape": []}], "outputs": []}
    made = service_of(lambda self, batch: {"y": foreign, "z": [1, 2]}, signature)
    found = answers(made, item({"x": 1}), item({"x": 2}))

    assert json.loads(found[0][1]) == {"prediction": {"y": [0.1, 2, 3], "z": 1}}


def test_a_response_and_a_list_may_hold_them(foreign):
    made = service_of(lambda self, batch: [foreign, Response(foreign, 201)])
    one, other = answers(made, item(1), item(2))

    assert one == other


def test_npy_is_negotiated_for_one(foreign):
    media_type, body = answer(
        service_of(lambda self, batch: [foreign]), b"1", accept="application/x-npy"
    )

    assert media_type == "application/x-npy"
    assert np.array_equal(np.load(io.BytesIO(body)), NUMBERS)


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [WithArray(row) for row in NUMBERS]])
def test_a_signature_takes_what_preprocess_makes_of_them(foreign, wrap):
    seen = []

    def predict(self, batch):
        seen.append(batch["x"])
        return [0]

    signature = {"inputs": [{"name": "x", "dtype": "float64", "shape": [2, 3]}], "outputs": []}
    made = service_of(predict, signature, preprocess=lambda self, request: wrap(foreign))

    assert prediction(made, b"1") == 0
    assert np.array_equal(seen[0], NUMBERS[np.newaxis].astype(float))


def test_one_of_another_shape_is_refused_in_words():
    signature = {"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}], "outputs": []}
    made = service_of(
        lambda self, batch: [0], signature, preprocess=lambda self, request: WithArray(NUMBERS)
    )

    assert prediction(made, b"1") == ("InputError", "x: shape [2, 3], expected [2]")


def test_the_error_names_the_type_and_the_reason_of_its_library():
    with pytest.raises(ResultNotEncodable) as refused:
        value.encode([OnDevice()])

    assert str(refused.value) == (
        f"output: a {__name__.partition('.')[0]}.OnDevice is not an array of NumPy: "
        "Implicit conversion is not allowed. Use .get()"
    )


def test_envelopes_get_arrays_of_numpy(foreign):
    assert type(with_known_arrays([{"a": foreign}])[0]["a"]) is np.ndarray


def test_a_stream_of_them(foreign):
    def predict(self, value):
        yield foreign
        yield [foreign, 1]

    outputs = loaded(service_of(predict)).predictor.answer([item(1)]).answers

    whole = json.loads(json_codec.encode(NUMBERS))
    assert json.loads(outputs[0][2])["prediction"] == [whole, [whole, 1]]


@pytest.mark.slow
class TestTorch:
    """What torch makes of tensors that are not plain memory of the CPU."""

    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    def test_a_gradient_is_left_behind(self, torch):
        assert as_array(torch.ones(2, requires_grad=True) * 3).tolist() == [3, 3]

    @pytest.mark.parametrize("change", ["conj", "T", "expand"])
    def test_views_are_resolved(self, torch, change):
        tensor = torch.tensor([[1 + 2j, 3]])
        changed = tensor.expand(2, 2) if change == "expand" else getattr(tensor, change)
        changed = changed() if callable(changed) and change == "conj" else changed

        assert as_array(changed).tolist() == changed.tolist()

    def test_a_number_is_a_number(self, torch):
        assert json_codec.encode([torch.tensor(0.1), torch.tensor(3), torch.tensor(True)]) == (
            b"[0.1,3,true]"
        )

    @pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
    def test_element_types_of_ml_dtypes(self, torch, name):
        ml_dtypes = pytest.importorskip("ml_dtypes")
        found = as_array(torch.tensor([[1.5, -2], [0, 4]]).to(getattr(torch, name)).T)

        assert found.dtype == getattr(ml_dtypes, name)
        assert found.astype(float).tolist() == [[1.5, 0], [-2, 4]]

    @pytest.mark.parametrize("dtype", ["float32", "bool", "int64", "bfloat16"])
    @pytest.mark.parametrize("count", [2, 2000], ids=["short", "long enough for simdjson"])
    def test_an_input_may_be_declared_as_a_tensor(self, torch, dtype, count):
        seen = []

        class Query(msgspec.Struct):
            x: Annotated[torch.Tensor, Array(dtype, (-1,))]

        def alone(self, batch: list[Annotated[torch.Tensor, Array(dtype, (-1,))]]):
            seen.extend(batch)
            return batch

        def field(self, batch: list[Query]):
            seen.extend(query.x for query in batch)
            return [query.x for query in batch]

        given = [dtype == "bool" or 1] * count
        assert prediction(service_of(alone), given) == given
        assert prediction(service_of(field), {"x": given}) == given
        assert all(
            torch.equal(each, torch.tensor(given).to(getattr(torch, dtype))) for each in seen
        )
        assert prediction(service_of(alone), [[1]]) == ("InputError", "shape [1, 1], expected [-1]")

    def test_sparse_tensors_say_what_to_call(self, torch):
        with pytest.raises(ResultNotEncodable, match=r"a torch\.Tensor is not .*to_dense"):
            as_array(torch.eye(2).to_sparse())

    def test_tensors_without_memory_are_refused(self, torch):
        with pytest.raises(ResultNotEncodable, match=r"a torch\.Tensor"):
            as_array(torch.ones(2, device="meta"))
