# SPDX-License-Identifier: Apache-2.0
"""Several front-ends of one server take about as many connections each."""

from time import monotonic

import pytest

from servekit.frontend.exchange.connection_shares import FRESH_S, ConnectionShares
from servekit.frontend.exchange.connections import OpenConnections
from servekit.settings import Settings


class Connection:
    """One that never expires."""

    expires = float("inf")
    is_closed = False


@pytest.fixture
def shares():
    """Those of the first front-end; the second is there too."""
    shares = ConnectionShares()
    shares.join(1)
    return shares


def note(shares, number, count, now):
    """Note what another front-end has."""
    shares.join(number)
    shares.note(count)
    shares.renew(now)
    shares.join(1)


@pytest.mark.parametrize(
    ("ours", "theirs", "is_ahead"),
    [(0, 0, False), (1, 0, False), (2, 0, True), (0, 9, False), (9, 8, False), (12, 8, True),
     (112, 100, False), (114, 100, True)],
)  # fmt: skip
def test_who_has_clearly_more_is_ahead(shares, ours, theirs, is_ahead):
    note(shares, 2, theirs, 10.0)

    assert shares.is_ahead(ours, 10.0) is is_ahead


def test_nobody_is_ahead_alone(shares):
    shares.note(1000)
    shares.renew(10.0)

    assert not shares.is_ahead(1000, 10.0)


def test_who_has_gone_is_not_waited_for(shares):
    note(shares, 2, 0, 10.0)
    assert shares.is_ahead(9, 10.0)
    assert not shares.is_ahead(9, 10.0 + FRESH_S)
    note(shares, 3, 0, 20.0)
    shares.join(3)
    shares.leave()
    shares.join(1)

    assert not shares.is_ahead(9, 20.0)


def test_connections_that_were_closed_no_longer_count_with_the_others(shares):
    """Else the others would take many more than their part until the next sweep."""
    shares.join(2)
    connections = OpenConnections(Settings(), shares)
    opened = [Connection() for _ in range(64)]
    for connection in opened:
        connections.add(connection)
    connections.sweep(monotonic())
    for connection in opened:
        connections.discard(connection)
    shares.join(1)

    assert shares.is_ahead(9, monotonic())


def test_a_front_end_that_has_accepted_nothing_counts_from_its_first_sweep(shares):
    shares.join(2)
    OpenConnections(Settings(), shares).sweep(monotonic())
    shares.join(1)

    assert shares.is_ahead(9, monotonic())


def test_a_front_end_that_drains_does_not_count(shares):
    shares.join(2)
    connections = OpenConnections(Settings(), shares)
    connections.sweep(monotonic())
    connections.drain()
    connections.sweep(monotonic())
    shares.join(1)

    assert not shares.is_ahead(9, monotonic())
