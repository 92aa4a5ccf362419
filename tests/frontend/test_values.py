# SPDX-License-Identifier: Apache-2.0
"""Values between steps: cut up and put together without a look inside."""

from contextlib import suppress

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.frontend.pipelines.values import as_list, as_mapping, as_values, split
from servekit.ipc.channel import ChannelClosed

PARTS = st.lists(st.binary(max_size=40), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def whole(pieces):
    return b"".join(map(bytes, pieces))


@given(PARTS)
def test_what_is_put_together_is_cut_up_where_it_was(parts):
    assert [bytes(part) for part in split(whole(as_values(parts)))] == parts


@given(st.lists(VALUES, max_size=20))
def test_a_list_of_values_is_the_value_that_is_their_list(values):
    packed = whole(as_values([msgpack.packb(value) for value in values]))

    assert msgpack.unpackb(whole(as_list(packed)), strict_map_key=False) == values


@given(st.dictionaries(st.text(max_size=40), VALUES, max_size=20))
def test_a_mapping_of_values_is_the_value_that_is_their_mapping(values):
    contents = [[msgpack.packb(value)] for value in values.values()]

    found = msgpack.unpackb(whole(as_mapping([*values], contents)), strict_map_key=False)
    assert found == values
    assert [*found] == [*values]


@pytest.mark.parametrize("count", [0, 15, 16, 65_535, 65_536])
def test_headers_of_every_size_are_right(count):
    packed = whole(as_values([b"\x01"] * count))

    assert msgpack.unpackb(whole(as_list(packed))) == [1] * count
    names = [str(number) for number in range(count)]
    assert len(msgpack.unpackb(whole(as_mapping(names, [[b"\x01"]] * count)))) == count


@given(st.binary(max_size=60) | PARTS.map(lambda parts: whole(as_values(parts))[:-1]))
def test_bytes_of_a_broken_peer_are_refused_or_mean_one_thing(data):
    with suppress(ChannelClosed):
        assert whole(as_values(split(data))) == data
