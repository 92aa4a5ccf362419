# SPDX-License-Identifier: Apache-2.0
"""What is remembered of requests that killed a worker."""

from types import SimpleNamespace

import pytest

from servekit.frontend.batching.retry import MAX_POISON, REMEMBERED_S, PoisonList
from servekit.ipc.batches import Item

JSON = b"application/json"
OWNER = SimpleNamespace(bodies=SimpleNamespace(content=lambda body: body))


def task(content_type, body):
    item = Item(body, content_type, b"", "r1", 1.0)
    return SimpleNamespace(item=item, body_bytes=len(body), owner=OWNER)


@pytest.fixture
def poison():
    made = PoisonList()
    made.add(task(JSON, b"poison"), 0.0)
    return made


@pytest.mark.parametrize(
    ("content_type", "body", "now", "is_known"),
    [
        pytest.param(JSON, b"poison", 1.0, True, id="the same again"),
        pytest.param(JSON, memoryview(b"poison"), 1.0, True, id="the same in shared memory"),
        pytest.param(JSON, b"poisom", 1.0, False, id="another body of the same size"),
        pytest.param(b"text/plain", b"poison", 1.0, False, id="the same body of another type"),
        pytest.param(JSON + b"p", b"oison", 1.0, False, id="the same bytes cut elsewhere"),
        pytest.param(JSON, b"poison", REMEMBERED_S, False, id="after its time"),
    ],
)
def test_only_the_same_request_is_known(poison, content_type, body, now, is_known):
    assert poison.has(task(content_type, body), now) is is_known


def test_nothing_is_left_after_its_time(poison):
    poison.add(task(JSON, b"later"), 10.0)
    poison.forget(REMEMBERED_S)
    assert poison.sizes == {5}
    poison.forget(REMEMBERED_S + 10)

    assert not poison.sizes


def test_the_oldest_is_forgotten_when_there_are_too_many(poison):
    for number in range(MAX_POISON):
        poison.add(task(JSON, b"%d" % number), 1.0)

    assert not poison.has(task(JSON, b"poison"), 2.0)
    assert poison.has(task(JSON, b"0"), 2.0)
