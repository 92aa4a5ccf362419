# SPDX-License-Identifier: Apache-2.0
"""The header field ``Prefer``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servekit_jobs.prefer import Preferences, preferences


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"respond-async", (True, 0)),
        (b"Respond-Async , WAIT = 10", (True, 10)),
        (b'respond-async, wait="5"', (True, 5)),
        (b"wait=3, wait=9", (False, 3)),
        (b"respond-async;x=1;y, handling=lenient", (True, 0)),
        (b"wait=-1", (False, 0)),
        (b"wait=1.5, respond-async", (True, 0)),
        (b"wait=99999", (False, 60)),
        (b"respond-asynchronously", (False, 0)),
        (b'return=minimal; foo="some, parameter", respond-async', (True, 0)),
        (b"", (False, 0)),
    ],
)
def test_preferences(value, found):
    assert preferences(value) == found


@given(st.binary(max_size=200))
def test_any_value_is_read(value):
    assert isinstance(preferences(value), Preferences)
