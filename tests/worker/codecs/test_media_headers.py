# SPDX-License-Identifier: Apache-2.0
"""``Content-Type`` and ``Accept``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.errors import RequestError, UnknownMediaType
from servekit.worker.codecs.media_headers import parse_accept, parse_content_type


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"application/json", ("application/json", {})),
        (b" Application/JSON ; Charset=UTF-8", ("application/json", {"charset": "UTF-8"})),
        (b'a/b;x=1;y="2;\\"3" ;', ("a/b", {"x": "1", "y": '2;"3'})),
    ],
)
def test_a_content_type_is_split(header, expected):
    assert parse_content_type(header) == expected


@pytest.mark.parametrize(
    "header", [b"json", b"a/b/c", b"a/b c", b"a/b; x", b"/", b"a/b, c/d", b"\xff", b"a/b;x=1;x=2"]
)
def test_what_is_no_content_type_is_refused(header):
    with pytest.raises(UnknownMediaType, match="is not a media type"):
        parse_content_type(header)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"", [("*/*", 1.0)]),
        (b"A/B;q=0.5, */*;q=0", [("a/b", 0.5), ("*/*", 0.0)]),
        (b"text/html, *; q=.2, */*; q=0.1234", [("text/html", 1.0), ("*/*", 0.2), ("*/*", 0.1234)]),
        (b"a/b;q=2, text/html;level=1;q=0.3, nonsense,, c/d;q=x", [("text/html", 0.3)]),
    ],
)
def test_accept_is_a_list_of_ranges(header, expected):
    assert parse_accept(header) == expected


@given(st.binary(max_size=200))
def test_no_header_is_more_than_refused(header):
    parse_accept(header)
    try:
        name, _ = parse_content_type(header)
    except RequestError:
        return
    assert "/" in name
