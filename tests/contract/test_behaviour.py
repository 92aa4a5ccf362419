# SPDX-License-Identifier: Apache-2.0
"""``docs/behaviour.md`` promises nothing that no test keeps."""

import re
from pathlib import Path

import pytest

from tests.faults.rows import ROWS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "behaviour.md").read_text()
PROMISE = re.compile(r"^\| (?P<sentence>.+) \| (?P<keepers>.+) \|$", re.MULTILINE)
PROMISES = {
    row["sentence"]: row["keepers"]
    for row in PROMISE.finditer(PAGE)
    if row["sentence"] != "promise"
}


@pytest.mark.parametrize("sentence", PROMISES)
def test_every_promise_is_kept_by_a_test_that_exists(sentence, tests):
    keepers = re.findall(r"`(\w[\w-]*)`", PROMISES[sentence])

    assert keepers or PROMISES[sentence] == "every row"
    assert [name for name in keepers if name not in tests and name not in ROWS] == []


def test_every_row_of_make_faults_keeps_a_promise():
    assert [key for key in ROWS if f"`{key}`" not in PAGE] == []
