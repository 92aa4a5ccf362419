# SPDX-License-Identifier: Apache-2.0
"""The parts of requests that crash reports keep, and those that they never keep."""

from types import SimpleNamespace

import pytest

from servekit.extension import HttpRequest
from servekit.frontend.batching import held
from servekit.frontend.batching.held import held_requests

HEADERS = {
    b"content-type": b"application/json",
    b"authorization": b"Bearer secret",
    b"cookie": b"session=secret",
    b"x-user": b"ada",
    b"x-other": b"1",
}
ASKED = ["x-user", "authorization", "cookie", "?lang"]


def task(body=b"[1]", *, is_part=False):
    request = HttpRequest(b"POST", b"/m/predict?lang=en", dict(HEADERS), body, True, "1.1")
    exchange = None if is_part else SimpleNamespace(request=request)
    owner = SimpleNamespace(row=SimpleNamespace(asked=ASKED))
    return SimpleNamespace(
        exchange=exchange, owner=owner, request_id="r", body_bytes=len(body), consumer=None
    )


def test_without_bodies_no_input_is_kept():
    (found,) = held_requests([task()], 0)

    assert (found.request_id, found.method, found.target) == ("r", "POST", "/m/predict")
    assert found.headers == {"content-type": "application/json"}
    assert (found.body, found.body_bytes) == (None, 3)


def test_with_bodies_the_inputs_are_kept_and_no_secret_is():
    (found,) = held_requests([task()], 10)

    assert (found.body, found.target) == (b"[1]", "/m/predict?lang=en")
    assert found.headers == {"content-type": "application/json", "x-user": "ada"}


@pytest.mark.parametrize(("limit", "is_kept"), [(2, False), (3, True)])
def test_only_bodies_up_to_the_limit_are_kept(limit, is_kept):
    (found,) = held_requests([task()], limit)

    assert (found.body is not None) == is_kept


def test_all_bodies_of_a_report_are_bounded_together(monkeypatch):
    monkeypatch.setattr(held, "MAX_BYTES", 7)
    found = held_requests([task() for _ in range(4)], 10)

    assert [each.body for each in found] == [b"[1]", b"[1]", None, None]


def test_a_part_of_a_request_is_an_id():
    (found,) = held_requests([task(is_part=True)], 10)

    assert (found.request_id, found.method, found.body) == ("r", "", None)
