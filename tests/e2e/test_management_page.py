# SPDX-License-Identifier: Apache-2.0
"""``docs/management.md``, followed exactly."""

import sys
from pathlib import Path

import pytest

from tests.e2e.document import Reader
from tests.processes import free_port

PAGE = Path(__file__).parents[2] / "docs" / "management.md"
pytestmark = pytest.mark.e2e


@pytest.mark.slow
def test_the_page_on_management_works_as_it_is_written(tmp_path_factory):
    place = tmp_path_factory.mktemp("r")  # short: the paths of sockets are limited
    text = PAGE.read_text(encoding="utf-8").replace("8081", str(free_port()))

    assert Reader(place, Path(sys.executable).parent).follow(text) == text.count("```json")
