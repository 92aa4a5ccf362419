# SPDX-License-Identifier: Apache-2.0
"""What the measurements read and print."""

import pytest

from tests.scale.exposition import total
from tests.scale.queue_alone import queue_alone
from tests.scale.report import TEXTS
from tests.scale.sections import Plan
from tests.scale.table import table, text_of

EXPOSITION = """\
# HELP servekit_requests_total Predictions answered
servekit_requests_total{model="a",status="200"} 3.0
servekit_requests_total{model="a",status="429"} 2.0
servekit_requests_total{model="b",status="200"} 4.0
process_open_fds 9.0
"""


@pytest.mark.parametrize(
    ("series", "labels", "expected"),
    [
        pytest.param("servekit_requests_total", (), 9.0, id="all values of a series"),
        pytest.param("servekit_requests_total", ('status="200"',), 7.0, id="those of one label"),
        pytest.param(
            "servekit_requests_total", ('model="a"', 'status="200"'), 3.0, id="those of two labels"
        ),
        pytest.param("process_open_fds", (), 9.0, id="a series without labels"),
        pytest.param("requests_total", (), 0.0, id="a series that is not there"),
    ],
)
def test_total(series, labels, expected):
    assert total(EXPOSITION, series, *labels) == expected


@pytest.mark.parametrize(
    ("cell", "text"),
    [(10_000, "10,000"), (1234.5, "1,234"), (12.345, "12.3"), (0.01234, "0.0123"), ("x", "x")],
)
def test_cells_are_as_long_as_they_are_exact(cell, text):
    assert text_of(cell) == text


def test_table_lines_up():
    lines = table(("tasks", "us"), [(10_000, 1.5), (1, 250.0)]).splitlines()

    assert lines[2:] == ["| 10,000 | 1.5 |", "| 1      | 250 |"]
    assert len(set(map(len, lines))) == 1


def test_every_section_has_its_words():
    from tests.scale import sections

    assert all(callable(getattr(sections, name)) for name in TEXTS)
    assert set(TEXTS) - {"queue"} <= set(Plan._fields)


def test_queue_alone_runs_every_step():
    figures = queue_alone(64, 1)

    assert len(figures) == 7
    assert figures[-1] > 0
