# SPDX-License-Identifier: Apache-2.0
"""The log of a server in the background, as its program gets it."""

import pytest

from servekit.local_server.child import text_of

TRACEBACK = "Traceback (most recent call last):\nValueError: no\n"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        pytest.param({"subject": "digits/0"}, "digits/0 failed", id="of a replica"),
        pytest.param({"subject": "servekit"}, "failed", id="of the server itself"),
        pytest.param({}, "failed", id="of nobody"),
        pytest.param(
            {"subject": "digits/0", "traceback": TRACEBACK},
            f"digits/0 failed\n{TRACEBACK}".strip(),
            id="with a traceback",
        ),
    ],
)
def test_an_entry_is_what_people_would_read_in_the_log(entry, text):
    assert text_of({"event": "log", "message": "failed", **entry}) == text
