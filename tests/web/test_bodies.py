# SPDX-License-Identifier: Apache-2.0
"""JSON that clients send to routes: what cannot be read is refused, however it is broken."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.extension import read_json
from servekit.web import RouteMetrics, create_management

from .fakes import FakeOperated, model_row

DEEP = b"[" * 100_000
BROKEN = [
    DEEP,
    DEEP + b"]" * 100_000,
    b'{"a":' * 50_000,
    b'"\xff"',
    b"{",
    b"",
    b"nul",
    b"\xef\xbb\xbf1",
]


@pytest.mark.parametrize("body", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("kind", [object, dict[str, Any], list[int]])
def test_a_broken_body_is_refused(body, kind):
    with pytest.raises(msgspec.DecodeError):
        read_json(body, kind)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(body):
    with suppress(msgspec.DecodeError):
        read_json(body, object)


@pytest.mark.parametrize("body", BROKEN[:4], ids=range(4))
def test_a_route_of_management_refuses_it(body):
    managed = FakeOperated(model_row("digits"))
    client = create_management(managed, RouteMetrics(managed)).test_client()
    response = client.post("/models", data=body, content_type="application/json")

    assert response.status_code == 400, response.text
    assert not managed.operations
