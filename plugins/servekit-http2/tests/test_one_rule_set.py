# SPDX-License-Identifier: Apache-2.0
"""Whatever a request of HTTP/1.1 may say, one of HTTP/2 may say too, and nothing else."""

import pytest
from servekit_http2.request_builder import MalformedRequest, StreamRequestBuilder

from servekit.errors import ServekitError
from servekit.frontend.memory.pressure import Pressure
from servekit.frontend.transport import METHODS
from servekit.settings import Settings
from tests.frontend.stand_ins import make_parser


def first(method=b"GET", target=b"/", name=b"x-a", value=b"b"):
    """Whether HTTP/1.1 takes such a request."""
    parser = make_parser()
    line = b"%b %b HTTP/1.1\r\nHost: a\r\n%b: %b\r\n\r\n" % (method, target, name, value)
    return parser.feed(line) is None and len(parser.requests) == 1


def second(method=b"GET", target=b"/", name=b"x-a", value=b"b"):
    """Whether HTTP/2 takes it."""
    builder = StreamRequestBuilder(Settings(), None, Pressure(0, 1.0))
    fields = [(b":method", method), (b":scheme", b"http"), (b":path", target)]
    try:
        builder.take_fields([*fields, (b":authority", b"a"), (name, value)], is_end=True)
    except (MalformedRequest, ServekitError):
        return False
    return True


BYTES = [bytes((number,)) for number in range(256)]
EVERY = {
    "path": [{"target": b"/a%bb" % each} for each in BYTES],
    "query": [{"target": b"/a?b%bc" % each} for each in BYTES],
    "value": [{"value": b"a%bb" % each} for each in BYTES],
    "name": [{"name": b"a%bb" % each} for each in BYTES if not each.isupper() and each != b":"],
    "method": [
        {"method": each}
        for each in (*METHODS, b"SOURCE", b"PRI", b"DESCRIBE", b"BREW", b"get", b"G(T", b"GET,")
    ],
    "target": [
        {"target": each}
        for each in (
            b"*",
            b"",
            b"a",
            b"//a",
            b"/a#b",
            b"/%zz",
            b"/%00",
            b"/a?%00",
            b"/..",
            b"/a?b#c",
        )
    ],
}


@pytest.mark.parametrize("part", EVERY)
def test_both_versions_take_the_same(part):
    differences = [each for each in EVERY[part] if first(**each) != second(**each)]

    assert differences == []
    assert any(first(**each) for each in EVERY[part])
