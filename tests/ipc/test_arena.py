# SPDX-License-Identifier: Apache-2.0
"""Shared memory: slabs never overlap, nothing is lost, and a reader trusts no descriptor."""

import gc
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.ipc.arena import PAGE, Arena
from servekit.ipc.arena_reader import ArenaReader
from servekit.ipc.batches import Slab
from servekit.ipc.channel import ChannelClosed
from tests.waiting import wait_until


@pytest.fixture
def arena():
    arena = Arena(16 * PAGE)
    yield arena
    arena.close()


@given(st.lists(st.one_of(st.integers(1, 6 * PAGE), st.integers(-8, -1)), max_size=60))
def test_slabs_never_overlap_and_all_room_comes_back(steps):
    arena = Arena(16 * PAGE)
    taken: list[Slab] = []
    for step in steps:
        if step > 0:
            slab = arena.allocate(step)
            if slab is not None:
                ends = [(s.offset, s.offset + s.size) for s in taken]
                assert all(slab.offset >= end or slab.offset + step <= start for start, end in ends)
                assert slab.offset + step <= arena.size
                taken.append(slab)
        elif taken:
            arena.free(taken.pop(step % len(taken)))
    for slab in taken:
        arena.free(slab)

    assert arena.is_empty
    assert arena.allocate(arena.size) == Slab(0, arena.size)
    arena.close()


def test_full_arena_says_so_and_has_room_again(arena):
    first = arena.allocate(10 * PAGE)

    assert arena.allocate(7 * PAGE) is None
    arena.free(first)
    assert arena.allocate(16 * PAGE) is not None


def test_reader_sees_what_the_writer_wrote(arena):
    slab = arena.allocate(5)
    arena.view(slab)[:] = b"hello"
    view = ArenaReader(os.dup(arena.descriptor)).view(slab)

    assert (bytes(view), view.readonly) == (b"hello", True)


KEPT = {
    "a view": lambda view: view[1:2],
    "an array": lambda view: np.frombuffer(view, np.uint8),
    "a part of an array": lambda view: np.frombuffer(view, np.uint8)[2:].reshape(-1, 1),
    "an array of it as it is": np.asarray,
}


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
def test_look_ends_only_when_nothing_over_it_is_alive(arena, keep):
    look = ArenaReader(os.dup(arena.descriptor)).look(arena.allocate(10))
    kept = [keep(look.view)]
    assert not look.end()
    kept.clear()

    assert look.end()


def test_look_at_a_slab_is_read_only(arena):
    look = ArenaReader(os.dup(arena.descriptor)).look(arena.allocate(10))

    with pytest.raises(TypeError):
        look.view[0] = 1


@pytest.mark.parametrize("slab", [Slab(0, 17 * PAGE), Slab(-1, 1), Slab(16 * PAGE, 1), Slab(0, -1)])
def test_slab_outside_the_arena_ends_the_channel(arena, slab):
    reader = ArenaReader(os.dup(arena.descriptor))

    with pytest.raises(ChannelClosed, match="outside its arena"):
        reader.view(slab)


def test_arena_cannot_shrink_under_its_readers(arena):
    with pytest.raises(PermissionError):
        os.ftruncate(arena.descriptor, PAGE)


def test_descriptor_that_could_shrink_is_refused():
    with tempfile.TemporaryFile() as file:
        file.truncate(PAGE)

        with pytest.raises(ChannelClosed):
            ArenaReader(os.dup(file.fileno()))


def resident(descriptor) -> int:
    return os.fstat(descriptor).st_blocks * 512


def test_trimmed_arena_gives_its_memory_back(arena):
    slab = arena.allocate(8 * PAGE)
    arena.view(slab)[:] = bytes(8 * PAGE)
    assert resident(arena.descriptor) == 8 * PAGE
    arena.free(slab)
    arena.trim()

    assert resident(arena.descriptor) == 0


def descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_closed_arenas_leave_no_descriptor():
    before = descriptors()
    for _ in range(20):
        arena = Arena(PAGE)
        ArenaReader(os.dup(arena.descriptor))
        arena.close()

    # a server of an earlier test may open and close some of its own
    wait_until(lambda: descriptors() <= before, "no descriptor is left")


def test_a_slab_in_the_overflow_takes_memory_only_while_it_is_used():
    arena = Arena(4 * PAGE, overflow=1 << 40)
    reader = ArenaReader(os.dup(arena.descriptor), arena.size)
    content = os.urandom(3 * PAGE)
    warm, cold = arena.allocate(3 * PAGE), arena.allocate(3 * PAGE)
    for slab in (warm, cold):
        arena.write(slab, content)
    views = [reader.view(warm), reader.view(cold)]

    assert views == [content, content]
    assert all(view.readonly for view in views)
    assert resident(arena.descriptor) == 6 * PAGE
    arena.free(cold)
    assert resident(arena.descriptor) == 3 * PAGE
    arena.close()
    reader.close()


def test_a_slab_that_was_shrunk_leaves_its_end_to_others(arena):
    slab = arena.shrink(arena.allocate(16 * PAGE), 5 * PAGE + 1)

    assert slab == Slab(0, 5 * PAGE + 1)
    assert arena.allocate(10 * PAGE) == Slab(6 * PAGE, 10 * PAGE)
    arena.free(slab)
    assert arena.allocate(6 * PAGE) == Slab(0, 6 * PAGE)


def test_a_slab_grows_where_it_is_as_long_as_nothing_is_behind_it(arena):
    first = arena.grow(arena.allocate(PAGE), 3 * PAGE)
    second = arena.allocate(PAGE)

    assert (first, second) == (Slab(0, 3 * PAGE), Slab(3 * PAGE, PAGE))
    assert arena.grow(first, 4 * PAGE) is None
    assert arena.grow(second, 14 * PAGE) is None
    assert arena.grow(second, 13 * PAGE) == Slab(3 * PAGE, 13 * PAGE)
    arena.free(first)
    arena.free(second)
    assert arena.allocate(16 * PAGE) is not None


def test_trimming_gives_back_what_lies_between_slabs_in_use(arena):
    slabs = [arena.allocate(4 * PAGE) for _ in range(3)]
    for slab in slabs:
        arena.view(slab)[:] = bytes(4 * PAGE)
    arena.free(slabs[1])
    arena.trim()

    assert resident(arena.descriptor) == 8 * PAGE
