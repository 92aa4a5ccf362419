# SPDX-License-Identifier: Apache-2.0
"""When a front-end looks at deadlines and timeouts."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from servekit.frontend.server import front_end as module
from servekit.frontend.server.front_end import FrontEnd


@pytest.fixture
def sweep(monkeypatch):
    """Return ``sweep(now)``: whether connections and workers were looked at."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "monotonic", lambda: clock.now)
    core = Mock(traces=None, pressure=Mock(is_high=False))
    front_end = FrontEnd(core, Mock())

    def sweep(now):
        clock.now = now
        before = len(core.method_calls)
        front_end._sweep()
        names = [name for name, *_ in core.method_calls[before:] if name.endswith("s.sweep")]
        assert names in ([], ["routing.batchers.sweep", "connections.sweep"])
        return bool(names)

    return sweep


def test_each_sweep_looks_at_all(sweep):
    assert [sweep(moment / 10) for moment in range(1, 6)] == [True] * 5


def test_a_process_that_was_paused_first_reads_what_has_arrived(sweep):
    """Else a client would be late, or a worker hang, that sent its part in time."""
    assert [sweep(moment) for moment in (0.1, 9.0, 9.1, 20.0, 20.1)] == [
        *(True, False, True, False, True)
    ]


def test_a_process_that_is_always_late_keeps_its_deadlines(sweep):
    assert [sweep(float(moment)) for moment in range(1, 7)] == [False, True] * 3
