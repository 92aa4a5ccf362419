# SPDX-License-Identifier: Apache-2.0
"""What is remembered of requests that killed a worker."""

import pytest

from servekit.frontend.batching.poison import MAX_CULPRITS, REMEMBERED_S, Culprits

JSON = b"application/json"


@pytest.fixture
def culprits():
    made = Culprits()
    made.remember(JSON, b"poison", 0.0)
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
def test_only_the_same_request_is_known(culprits, content_type, body, now, is_known):
    assert culprits.knows(content_type, body, now) is is_known


def test_nothing_is_left_after_its_time(culprits):
    culprits.remember(JSON, b"later", 10.0)
    culprits.forget(REMEMBERED_S)
    assert culprits.sizes == {5}
    culprits.forget(REMEMBERED_S + 10)

    assert not culprits.sizes


def test_the_oldest_is_forgotten_when_there_are_too_many(culprits):
    for number in range(MAX_CULPRITS):
        culprits.remember(JSON, b"%d" % number, 1.0)

    assert not culprits.knows(JSON, b"poison", 2.0)
    assert culprits.knows(JSON, b"0", 2.0)
