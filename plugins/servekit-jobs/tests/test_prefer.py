# SPDX-License-Identifier: Apache-2.0
"""The header field ``Prefer``."""

from time import thread_time

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


@pytest.mark.parametrize(
    "value",
    [
        b"a" + b" " * 8000 + b'"x',
        b"a=" + b"\t" * 8000 + b'"x',
        b"a=b" + b" " * 8000 + b"x",
        b" " * 8000 + b"=",
        b'a="' + b"x" * 8000,
        b"a" * 8000 + b'"',
        b"a;" * 4000 + b"\n",
        b" a ," * 2000,
    ],
)
def test_the_time_to_read_a_value_is_proportional_to_its_length(value):
    started = thread_time()
    preferences(value)

    assert thread_time() - started < 0.25


@given(st.binary(max_size=200))
def test_any_value_is_read(value):
    assert isinstance(preferences(value), Preferences)
