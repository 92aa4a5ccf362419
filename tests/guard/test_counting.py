# SPDX-License-Identifier: Apache-2.0
"""The guard itself: traces are read right, and a regression would be seen."""

import pytest

from tests.guard.bounds import allowed
from tests.guard.traces import is_receipt, read_trace, turns, typical

TRACE = """\
execve("/usr/bin/python3", ["python3"], 0x7ffd /* 30 vars */) = 0
recvfrom(13, "POST / g-1", 65536, 0, NULL, NULL) = 10
getpid()                                = 5
sendto(13, "HTTP/1.1 200 OK", 15, 0, NULL, 0) = 15
--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---
recvfrom(13, "POST / g-2", 65536, 0, NULL, NULL) = 10
getpid()                                = 5
fchmod(6, 001)                          = 0
sendto(13, "HTTP/1.1 200 OK", 15, 0, NULL, 0) = 15
recvfrom(13, "POST / g-3", 65536, 0, NULL, NULL) = 10
sendto(13, "HTTP/1.1 200 OK", 15, 0, NULL, 0) = 15
getpid()                                = 5
recvfrom(13, "POST / g-4", 65536, 0, NULL, NULL) = 10
+++ exited with 0 +++
"""


@pytest.fixture
def calls(tmp_path):
    path = tmp_path / "trace.1"
    path.write_text(TRACE)
    return read_trace(path)


def test_trace_without_signals_and_exits(calls):
    assert len(calls) == 12
    assert {call.name for call in calls} == {"execve", "recvfrom", "getpid", "sendto", "fchmod"}


def test_typical_turn_leaves_out_what_a_timer_did_once(calls):
    parts = list(turns(calls, lambda call: is_receipt(call, "POST")))

    assert [len(part) for part in parts] == [3, 4, 3]
    assert typical(parts) == {"recvfrom": 1, "getpid": 1, "sendto": 1}


@pytest.mark.parametrize(
    ("counted", "limit"),
    [
        pytest.param({"yardstick": 100}, 1100, id="same interpreter"),
        pytest.param({"yardstick": 150}, 1650, id="interpreter of another build"),
    ],
)
def test_limit_follows_the_yardstick(counted, limit):
    assert allowed({"yardstick": 100, "case": 1000}, counted, "case") == limit
