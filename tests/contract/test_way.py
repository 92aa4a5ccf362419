# SPDX-License-Identifier: Apache-2.0
"""The way of a predict request: the table in ``CONTRIBUTING.md``, held."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\|[a-z -]*\| `([\w/]+\.py)` \|", re.MULTILINE)
CHANNEL = "ipc/channel.py"
#: stays of one request, as ``tests/guard/way.py`` counts them: lower them, never raise them
MOST = {"front-end": 38, "worker": 9}


@pytest.fixture(scope="module")
def way():
    """Return the files that one request is in, in the front-end and in a worker."""
    command = [sys.executable, "-m", "tests.guard.way"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


def test_the_files_on_the_way_are_those_of_the_table(way):
    front_end, worker = (list(dict.fromkeys(way[name])) for name in ("front-end", "worker"))
    there = front_end.index(CHANNEL) + 1

    assert ROW.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")) == [
        *front_end[:there],
        *worker,
        *front_end[there:],
    ]


def test_control_goes_forward(way):
    assert {name: len(way[name]) for name in way if len(way[name]) > MOST[name]} == {}
