# SPDX-License-Identifier: Apache-2.0
"""``docs/ranks.md``, followed exactly where PyTorch is installed."""

import sys
from pathlib import Path

import pytest

from tests.e2e.document import Reader

PAGE = Path(__file__).parents[2] / "docs" / "ranks.md"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_the_page_works_as_it_is_written(tmp_path):
    pytest.importorskip("torch")
    text = PAGE.read_text(encoding="utf-8")

    assert Reader(tmp_path, Path(sys.executable).parent).follow(text) == text.count("```json")
