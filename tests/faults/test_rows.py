# SPDX-License-Identifier: Apache-2.0
"""Every row with small counts: the same code as ``make faults``."""

import pytest

from tests.faults.playing import play
from tests.faults.report import section
from tests.faults.rows import ROWS

#: a hundred faults, one after another, take minutes on a busy machine
pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]
LONG = {"uploads", "memory"}  #: a minute in all: `make faults` plays them


@pytest.mark.parametrize("key", [key for key in ROWS if key not in LONG])
def test_a_short_run_keeps_every_promise(key):
    outcome = play(key, is_short=True, say=print)
    if outcome.left_out:
        pytest.skip(outcome.left_out)

    assert not outcome.missed, section(outcome)
