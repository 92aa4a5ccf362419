# SPDX-License-Identifier: Apache-2.0
"""Where the time of a request went, as its page says it."""

import msgspec
import pytest
from servekit_console.slow import shown

from servekit.extension import Span

from .test_history import trace


def span(name, start_s, duration_s, stage="", batch=0):
    return Span(name=name, start_s=start_s, duration_s=duration_s, stage=stage, batch=batch)


def make(*spans, duration_s=1.0):
    return shown(
        msgspec.structs.replace(trace(duration_s=duration_s), spans=list(spans)), with_body=False
    )


def test_a_part_is_placed_where_it_was_in_the_whole():
    page = make(span("queue", 0.0, 0.25), span("predict", 0.25, 0.5))

    assert [(each.left, each.width) for each in page.spans] == [(0, 25), (25, 50)]


def test_a_part_never_leaves_the_picture():
    page = make(span("send", 0.9, 0.5), span("queue", -0.1, 0.1), span("predict", 2.0, 1.0))

    assert all(each.left >= 0 and each.left + each.width <= 100 for each in page.spans)


@pytest.mark.parametrize(
    ("spans", "title"),
    [
        pytest.param([span("queue", 0, 0.1), span("predict", 0.1, 0.9)], "predict", id="longest"),
        pytest.param(
            [span("predict", 0, 0.2, "tokenize"), span("predict", 0.2, 0.7, "generate")],
            "predict of generate",
            id="its stage",
        ),
        pytest.param(
            [span("predict", 0, 0.9), span("lookup", 0.1, 0.8)], "lookup", id="its own name for it"
        ),
        pytest.param(
            [span("predict", 0, 0.9), span("lookup", 0.1, 0.2)], "predict", id="not a small part"
        ),
        pytest.param(
            [span("predict", 0, 0.9, "a"), span("lookup", 0, 0.8, "b")],
            "predict of a",
            id="not a part of another stage",
        ),
    ],
)
def test_the_title_names_what_took_longest(spans, title):
    assert make(*spans).main.title == title


def test_a_request_without_parts_has_no_title():
    page = make()

    assert (page.main, page.share) == (None, 0.0)
