# SPDX-License-Identifier: Apache-2.0
"""``docs/streaming.md``: what it says is done, and what it shows is what happens."""

import re
import sys
from pathlib import Path

import pytest

from servekit.testing import ServiceClient
from tests.e2e.document import Reader

PAGE = (Path(__file__).parents[2] / "docs" / "streaming.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


class FakeEngine:
    """Stands for an engine elsewhere."""

    async def generate(self, prompt):
        for letter in prompt:
            yield letter


async def start_engine():
    return FakeEngine()


def test_the_page_works_as_it_is_written(tmp_path):
    assert Reader(tmp_path, Path(sys.executable).parent).follow(PAGE) == 2


@pytest.mark.parametrize(
    ("block", "name", "value", "outputs"),
    [
        (0, "Story", "once upon", ["ONCE", "UPON"]),
        (1, "Generator", "ab", ["a", "b"]),
        (2, "Engine", "ab", ["a", "b"]),
    ],
)
def test_its_services_do_what_it_says(block, name, value, outputs):
    names = {"__name__": "shown", "start_engine": start_engine}
    exec(compile(BLOCKS[block], "shown.py", "exec"), names)
    with ServiceClient(names[name]) as client:
        assert client.predict([value]) == [outputs]
