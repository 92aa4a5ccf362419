# SPDX-License-Identifier: Apache-2.0
"""The memory that front-ends count in."""

import logging
import os
import threading
from array import array

import pytest

from servekit.ipc.counter_share import HEAD, NUMBER, Share
from servekit.ipc.counters import Counters, create_memory

KEY = ("model", "a")


@pytest.fixture
def counters():
    found = Counters(create_memory())
    yield found
    os.close(found.descriptor)


def count(counters, amount, *keys):
    """Be a front-end that counts *amount* in each of *keys*; return its share's number."""
    number = counters.give()
    share = counters.share(number)
    for key in keys or [KEY]:
        share.take(key, 2, gauges=(1,))[:] = memoryview(bytes(16)).cast("d")
        share.take((*key, "more"), 1)[0] = amount
    return number


def test_nothing_is_lost_with_who_counted_it(counters):
    numbers = [count(counters, 2.0), count(counters, 3.0, KEY, ("b",))]
    before = counters.read()
    for number in numbers:
        counters.merge(number)

    assert counters.read() == before
    assert before[*KEY, "more"] == [5.0]


def test_a_thousand_front_ends_one_after_the_other_need_the_memory_of_one(counters):
    counters.merge(count(counters, 1.0))
    size = os.fstat(counters.descriptor).st_size
    for _ in range(999):
        counters.merge(count(counters, 1.0))

    assert counters.read()[*KEY, "more"] == [1000.0]
    assert os.fstat(counters.descriptor).st_size == size


def test_gauges_end_with_who_set_them(counters):
    number = counters.give()
    counters.share(number).take(KEY, 2, gauges=(1,))[:] = memoryview(
        b"".join(map(NUMBER.pack, (7.0, 9.0)))
    ).cast("d")
    counters.merge(number)

    assert counters.read() == {KEY: [7.0, 0.0]}


def test_of_moments_the_latest_counts_also_of_processes_that_have_ended(counters):
    numbers = [counters.give() for _ in range(3)]
    for number, moment in zip(numbers, (5.0, 9.0, 7.0), strict=True):
        counters.share(number).take(KEY, 2, moments=(1,))[:] = array("d", (1.0, moment))
    read = [counters.read()]
    for number in numbers:
        counters.merge(number)
        read.append(counters.read())

    assert read == [{KEY: [3.0, 9.0]}] * 4


def test_a_new_parent_takes_over_what_the_last_one_left(counters):
    count(counters, 1.0), count(counters, 2.0)
    heir = Counters(counters.descriptor)
    heir.merge_all()

    assert heir.read()[*KEY, "more"] == [3.0]
    assert heir.give() == 1


def test_who_reads_meanwhile_never_sees_less(counters):
    count(counters, 1.0)
    seen, is_over = [], threading.Event()

    def read():
        reader = Counters(counters.descriptor)
        while not is_over.is_set():
            seen.append(reader.read()[*KEY, "more"][0])

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(200):
        counters.merge(count(counters, 1.0))
    is_over.set()
    thread.join(60)

    assert seen == sorted(seen)
    assert counters.read()[*KEY, "more"] == [201.0]


def test_who_reads_waits_for_a_merge_that_is_held_up(counters, monkeypatch):
    counters.merge(count(counters, 1.0))
    seen = []
    reader = threading.Thread(target=lambda: seen.append(counters.read()[*KEY, "more"]))

    def write(number, offset, numbers):
        written(number, offset, numbers)
        if numbers == [2.0]:  # the sum is written, the share is not cleared yet
            reader.start()
            reader.join(0.1)

    written = counters._write
    monkeypatch.setattr(counters, "_write", write)
    counters.merge(count(counters, 1.0))
    reader.join(60)

    assert seen == [[2.0]]


def test_where_there_is_no_room_counting_goes_on(counters, monkeypatch, caplog):
    for module in ("counter_share", "counters"):
        monkeypatch.setattr(f"servekit.ipc.{module}.SHARE", 4096)
    os.ftruncate(counters.descriptor, 0)
    os.ftruncate(counters.descriptor, HEAD + 2 * 4096)
    share = Share(counters.descriptor, 1)
    share.take(KEY, 480)[0] = 1.0
    with caplog.at_level(logging.WARNING):
        other = share.take(("model", "b"), 480)
    other[479] += 1

    assert other[479] == 1.0
    assert list(counters.read()) == [KEY]
    assert "model b is not shown" in caplog.text


def test_a_record_that_is_given_back_serves_another_key(counters):
    number = counters.give()
    share = counters.share(number)
    kept = share.take(("kept",), 2)
    kept[0] = 1.0
    ends = set()
    for turn in range(100):
        key = ("model", "a" * (turn % 40), str(turn))
        share.take(key, 3)[1] = turn
        ends.add(counters._end(number))
        assert counters.read() == {("kept",): [1.0, 0.0], key: [0.0, turn, 0.0]}
        share.give_back(key)

    assert counters.read() == {("kept",): [1.0, 0.0]}
    assert len(ends) == 1


def test_a_record_is_only_used_again_for_as_many_numbers(counters):
    share = counters.share(counters.give())
    share.take(("first",), 2)
    share.give_back(("first",))
    share.take(("second",), 3)[2] = 1.0

    assert counters.read() == {("second",): [0.0, 0.0, 1.0]}


def test_only_the_keys_that_are_wanted_are_read(counters):
    count(counters, 1.0, KEY, ("b",))

    assert counters.read(lambda key: key[0] == "b") == {("b",): [0.0, 0.0], ("b", "more"): [1.0]}
