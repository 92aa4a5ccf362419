# SPDX-License-Identifier: Apache-2.0
"""No system call joins the hot path unnoticed."""

import pytest

from tests.guard.bounds import read_bounds
from tests.guard.tools import why_not
from tests.guard.turns import REQUESTS, batched_calls, typical_turns

pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(bool(why_not("strace")), reason=why_not("strace") or "strace works"),
]


def test_one_request_costs_each_process_the_recorded_calls(tmp_path):
    assert typical_turns(tmp_path) == read_bounds()["system_calls"]


def test_a_batch_crosses_the_channel_with_one_call_each_way(tmp_path):
    batches, front_end, worker = batched_calls(tmp_path)

    assert batches < REQUESTS, "the clients asked together and were not batched"
    assert worker == {"recvfrom": batches, "sendto": batches}
    assert front_end == {"recvfrom": REQUESTS + batches, "sendto": REQUESTS + batches}
