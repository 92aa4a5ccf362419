# SPDX-License-Identifier: Apache-2.0
"""When a front-end looks at deadlines and timeouts."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from servekit.frontend.exchange.connections import OpenConnections
from servekit.frontend.server import front_end as module
from servekit.frontend.server.front_end import SWEEP_S, FrontEnd
from servekit.settings import Settings


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


class Connection:
    """One whose timeout passes at *expires*."""

    is_closed = False

    def __init__(self, connections, expires):
        self.connections, self.expires = connections, expires

    def expire(self):
        self.is_closed = True
        self.connections.discard(self)


@pytest.mark.parametrize("timeout_s", [0.5, 0.73, 5.0, 75.0])
@pytest.mark.parametrize("is_set_later", [False, True])
def test_a_timeout_is_noticed_within_a_quarter_second(monkeypatch, timeout_s, is_set_later):
    clock = SimpleNamespace(now=1000.04)
    monkeypatch.setattr("servekit.frontend.exchange.connections.monotonic", lambda: clock.now)
    connections = OpenConnections(Settings(header_timeout=0.5))
    expires = clock.now + timeout_s
    connection = Connection(connections, clock.now + 600 if is_set_later else expires)
    connections.add(connection)
    connection.expires = expires  # as after each piece that arrives
    while not connection.is_closed:
        clock.now += SWEEP_S
        connections.sweep(clock.now)

    assert 0 <= clock.now - expires <= 0.25
