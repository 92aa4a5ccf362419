# SPDX-License-Identifier: Apache-2.0
"""``docs/testing-a-model.md``, followed to the letter."""

import sys
from pathlib import Path

import pytest

from tests.e2e.document import Reader

PAGE = Path(__file__).parents[2] / "docs" / "testing-a-model.md"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_the_page_works_as_it_is_written(tmp_path):
    Reader(tmp_path, Path(sys.executable).parent).follow(PAGE.read_text(encoding="utf-8"))

    assert (tmp_path / "test_server.py").exists()
