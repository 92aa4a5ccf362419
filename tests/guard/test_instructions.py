# SPDX-License-Identifier: Apache-2.0
"""Instructions per request stay within a tenth of what was recorded."""

import pytest

from tests.guard.bounds import VERSION, allowed, read_bounds
from tests.guard.counting import count_instructions
from tests.guard.tools import why_not

RECORDED = read_bounds()["instructions"].get(VERSION, {})
UNKNOWN = f"nothing is recorded for Python {VERSION}: python -m tests.guard --record"
REASON = why_not("valgrind") or ("" if RECORDED else UNKNOWN)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(REASON), reason=REASON or "valgrind works"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    return count_instructions(tmp_path_factory.mktemp("callgrind"))


@pytest.mark.parametrize("case", sorted(RECORDED.keys() - {"yardstick"}))
def test_instructions_per_request(counted, case):
    assert counted[case] <= allowed(RECORDED, counted, case)
