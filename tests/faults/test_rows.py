# SPDX-License-Identifier: Apache-2.0
"""Every row with small counts: the same code as ``make faults``."""

import pytest

from tests.faults.playing import play
from tests.faults.report import section
from tests.faults.rows import ROWS

pytestmark = pytest.mark.e2e
#: rows that wait for a part of the server that is being made
OPEN = {
    "F6": "slow readers are held longer than their timeout",
    "F20": "a worker that leaves after sys.exit is handed one more batch",
    "F19": "a stop takes longer than it should",
}


def marked(key):
    marks = [pytest.mark.xfail(reason=OPEN[key], strict=False)] if key in OPEN else []
    return pytest.param(key, marks=marks)


@pytest.mark.parametrize("key", [marked(key) for key in ROWS])
def test_a_short_run_keeps_every_promise(key):
    outcome = play(key, is_short=True, say=print)
    if outcome.left_out:
        pytest.skip(outcome.left_out)

    assert not outcome.missed, section(outcome)
