# SPDX-License-Identifier: Apache-2.0
"""``docs/features.md`` claims nothing that no test shows."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "features.md").read_text()
CLAIMED, _, LACKING = PAGE.partition("## What is not here")


def rows(text):
    """Return the cells of each row of the tables in *text*, heads left out."""
    lines = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [cells for cells in lines if cells[0] != "feature"]


@pytest.mark.parametrize("cells", rows(CLAIMED), ids=lambda cells: cells[0])
def test_every_yes_is_shown_by_a_test_that_exists(cells, tests):
    answer, keepers = cells[-2], re.findall(r"`(\w+)`", cells[-1])

    assert re.match(r"yes\b|no\b", answer)
    assert bool(keepers) == answer.startswith("yes")
    assert [name for name in keepers if name not in tests] == []


def test_what_is_not_here_is_not_claimed_elsewhere():
    lacking = rows(LACKING)

    assert {cells[2] for cells in lacking} == {"no"}
    assert {cells[0] for cells in lacking}.isdisjoint(cells[0] for cells in rows(CLAIMED))
