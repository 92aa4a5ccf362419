# SPDX-License-Identifier: Apache-2.0
"""The headers and parameters that a worker gets of a request."""

import pytest

from servekit.frontend.http.fields import picked, with_query

HEADERS = {b"x-user": b"ada", b"authorization": b"Bearer secret", b"traceparent": b"00-1"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param([], {"traceparent"}, id="nothing but the trace"),
        pytest.param(["x-user"], {"traceparent", "x-user"}, id="those that are named"),
        pytest.param(["*"], {"traceparent", "x-user", "?lang"}, id="all, but no secrets"),
    ],
)
def test_a_worker_gets_what_it_asks_for(names, expected):
    found = picked(with_query(HEADERS, b"/a/predict?lang=de"), names)

    assert set(found) == expected
