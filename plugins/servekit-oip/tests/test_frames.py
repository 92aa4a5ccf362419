# SPDX-License-Identifier: Apache-2.0
"""Header blocks of gRPC: those that repeat are remembered while they mean the same."""

import pytest

pytest.importorskip("hpack", reason="pip install 'servekit-oip[grpc]'")

from hpack import Encoder
from servekit_oip.grpc.frames import BlockDecoder, ProtocolError

FIELDS = ((":path", "/x"), ("te", "trailers"), ("x-request-id", "1"), ("x-request-id", "2"))


def test_a_block_that_repeats_is_remembered():
    encoder, decoder = Encoder(), BlockDecoder(65_536)
    decoder.decode(encoder.encode(FIELDS))  # fills the dynamic table
    block = encoder.encode(FIELDS)
    found = decoder.decode(block)

    assert decoder.decode(block) is found
    assert (found.path, found.headers) == (b"/x", {b"host": b"grpc", b"x-request-id": b"1, 2"})


def test_a_block_means_something_else_once_the_table_has_changed():
    encoder, decoder = Encoder(), BlockDecoder(65_536)
    decoder.decode(encoder.encode([("first", "1")]))
    block = encoder.encode([("first", "1")])  # an index
    decoder.decode(block)
    decoder.decode(encoder.encode([("second", "2")]))

    assert b"second" in decoder.decode(block).headers


def test_a_large_block_is_not_remembered():
    encoder, decoder = Encoder(), BlockDecoder(65_536)
    fields = [(f"x-{number}", "y" * 100) for number in range(50)]
    decoder.decode(encoder.encode(fields))
    block = encoder.encode(fields)

    assert decoder.decode(block) is not decoder.decode(block)


def test_fields_above_the_limit_are_refused():
    with pytest.raises(ProtocolError):
        BlockDecoder(1000).decode(Encoder().encode([("x", "y" * 2000)]))
