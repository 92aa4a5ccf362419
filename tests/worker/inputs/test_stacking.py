# SPDX-License-Identifier: Apache-2.0
"""Batches are stacked in memory that is reused, but never while something refers to it."""

import ctypes

import numpy as np
import pytest

from servekit.worker.inputs.stacking import SMALLEST, Stacker
from tests.worker.batches import loaded, service_of
from tests.worker.worker_process import item

WIDTH = SMALLEST // 4  # floats of a row: two rows are never small
SIGNATURE = {"inputs": [{"name": "x", "dtype": "float32", "shape": [WIDTH]}]}


def rows(*values, width=WIDTH):
    """Return arrays of *width* equal numbers."""
    return [np.full(width, value, np.float32) for value in values]


def address(array):
    """Return where the memory of *array* begins."""
    return array.__array_interface__["data"][0]


@pytest.fixture
def stacker():
    """Return a stacker of float32."""
    return Stacker(np.dtype(np.float32))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 2), (100, 100)])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_arrays_are_stacked_in_their_order(stacker, shape, count):
    arrays = list(np.random.default_rng(0).random((count, *shape), dtype=np.float32))
    stacked = stacker.stack([np.asarray(array) for array in arrays])

    assert stacked.dtype == np.float32
    assert stacked.shape == (count, *shape)
    assert np.array_equal(stacked, arrays)


def test_texts_are_stacked():
    arrays = [np.array(["a", "bc"], object), np.array(["d", ""], object)]

    assert Stacker(np.dtype(object)).stack(arrays).tolist() == [["a", "bc"], ["d", ""]]


def test_one_array_is_looked_at_where_it_lies(stacker):
    (array,) = rows(1)

    assert address(stacker.stack([array])) == address(array)


@pytest.mark.parametrize("shift", range(1, 4))
@pytest.mark.parametrize("method", ["stack", "join"])
def test_an_array_that_begins_at_an_odd_byte_is_copied(stacker, method, shift):
    """A service may hand its batch to native code, which crashes or is slow otherwise."""
    sent = bytes(shift) + np.arange(4, dtype=np.float32).tobytes()
    array = np.frombuffer(sent, np.float32, offset=shift).reshape(2, 2)
    batch = getattr(stacker, method)([array])

    assert not array.flags.aligned
    assert batch.flags.aligned
    assert batch.reshape(2, 2).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("method", ["stack", "join"])
def test_an_array_in_the_order_of_fortran_is_copied(stacker, method):
    batch = getattr(stacker, method)([np.asfortranarray(np.float32([[1, 2], [3, 4]]))])

    assert batch.flags.c_contiguous
    assert batch.reshape(2, 2).tolist() == [[1, 2], [3, 4]]


def test_memory_that_nobody_looks_at_is_used_again(stacker):
    first = address(stacker.stack(rows(1, 2)))
    batch = stacker.stack(rows(3, 4))

    assert address(batch) == first
    assert batch[:, 0].tolist() == [3, 4]


KEEP = {
    "the batch": lambda batch: batch,
    "a row": lambda batch: batch[1],
    "a view of a view": lambda batch: batch[::-1].T[5:],
    "another type": lambda batch: batch.view(np.int32)[0],
    "a memoryview": lambda batch: memoryview(batch)[1:],
    "an array over a memoryview": lambda batch: np.frombuffer(memoryview(batch), np.float32),
    "an array by DLPack": np.from_dlpack,
    "an object of ctypes": lambda batch: (ctypes.c_float * batch.size).from_buffer(batch),
    "an iterator": lambda batch: iter(batch),
}


@pytest.mark.parametrize("keep", KEEP.values(), ids=KEEP)
def test_memory_that_somebody_looks_at_is_left_alone(stacker, keep):
    batch = stacker.stack(rows(1, 2))
    kept_at = address(batch)
    kept = keep(batch)
    del batch
    others = [address(stacker.stack(rows(3, 4))) for _ in range(2)]

    assert kept is not None
    assert kept_at not in others
    assert others[0] == others[1]


def test_memory_that_is_given_back_is_not_lost_to_the_next_batch(stacker):
    kept = stacker.stack(rows(1, 2))
    stacker.stack(rows(3, 4))
    del kept
    first, second = (address(stacker.stack(rows(5, 6))) for _ in range(2))

    assert first == second


def test_memory_grows_to_at_least_twice_its_size(stacker):
    stacker.stack(rows(*range(4)))
    stacker.stack(rows(*range(5)))
    grown = address(stacker.stack(rows(*range(8))))

    assert address(stacker.stack(rows(*range(2)))) == grown
    assert stacker._buffer.nbytes == 8 * WIDTH * 4


def test_groups_of_one_batch_do_not_share_memory(stacker):
    wide, narrow = stacker.stack(rows(1, 2)), stacker.stack(rows(3, 4, width=WIDTH // 2))

    assert not np.shares_memory(wide, narrow)
    assert (wide[:, 0].tolist(), narrow[:, 0].tolist()) == ([1, 2], [3, 4])


def test_a_service_that_keeps_its_batches_never_sees_them_change():
    kept = []

    def predict(self, batch):
        kept.append(batch["x"] if len(kept) % 2 else {"rows": list(batch["x"])})
        return batch["x"][:, 0]

    predictor = loaded(service_of(predict, SIGNATURE)).predictor
    for number in range(6):
        body = rows(number)[0].tobytes()
        predictor.answer([item(body, "application/octet-stream")] * 2)
    seen = [set(np.unique(batch if len(batch) > 1 else batch["rows"])) for batch in kept]

    assert seen == [{0}, {1}, {2}, {3}, {4}, {5}]


def test_a_service_that_changes_its_batch_changes_nothing_else():
    def predict(self, batch):
        first = batch["x"][:, 0].tolist()
        batch["x"][:] = -1
        return first

    predictor = loaded(service_of(predict, SIGNATURE)).predictor
    items = [
        item(np.full(WIDTH, n, np.float32).tobytes(), "application/octet-stream") for n in (1, 2)
    ]
    turns = [predictor.answer(items) for _ in range(2)]

    assert [answer[2] for answer in turns[0].answers] == [
        b'{"prediction":1.0}',
        b'{"prediction":2.0}',
    ]
    assert turns[0].answers == turns[1].answers
