# SPDX-License-Identifier: Apache-2.0
"""docs/clients.md, followed to the letter."""

import shutil
import sys
from pathlib import Path

import pytest

from .document import Reader

PAGE = (Path(__file__).parents[2] / "docs/clients.md").read_text(encoding="utf-8")
BEFORE, JAVASCRIPT = PAGE.split("## JavaScript\n")
START = BEFORE.partition("## Generate a call")[0]
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.parametrize(
    ("text", "program", "answers"),
    [
        pytest.param(BEFORE, "curl", 5, id="Python and curl"),
        pytest.param(START + JAVASCRIPT, "node", 1, id="JavaScript"),
    ],
)
def test_the_page_works_as_written(tmp_path, text, program, answers):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    reader = Reader(tmp_path, Path(sys.executable).parent)
    compared = reader.follow(text, {"python -m pip install": "true"})

    assert compared == answers
