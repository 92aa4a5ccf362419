# SPDX-License-Identifier: Apache-2.0
"""Every state meets every event."""

from itertools import product

import pytest

from servekit.supervisor.replicas.lifecycle import TRANSITIONS, Event, State, advance

STARTING, SERVING, BACKOFF, STOPPING, STOPPED, FAILED = State
READY, EXITED, GAVE_UP, RETRY, STOP = Event

EXPECTED = {
    (STARTING, READY): SERVING,
    (STARTING, EXITED): BACKOFF,
    (STARTING, STOP): STOPPING,
    (SERVING, EXITED): BACKOFF,
    (SERVING, STOP): STOPPING,
    (BACKOFF, RETRY): STARTING,
    (BACKOFF, GAVE_UP): FAILED,
    (BACKOFF, STOP): STOPPED,
    (FAILED, RETRY): STARTING,
    (FAILED, STOP): STOPPED,
    (STOPPING, READY): STOPPING,
    (STOPPING, EXITED): STOPPED,
    (STOPPING, STOP): STOPPING,
    (STOPPED, STOP): STOPPED,
}


@pytest.mark.parametrize(
    ("state", "event"),
    [pytest.param(*pair, id=f"{pair[0].name} {pair[1].name}") for pair in EXPECTED],
)
def test_transition(state, event):
    assert advance(state, event) is EXPECTED[state, event]


@pytest.mark.parametrize(
    ("state", "event"),
    [
        pytest.param(*pair, id=f"{pair[0].name} never sees {pair[1].name}")
        for pair in product(State, Event)
        if pair not in EXPECTED
    ],
)
def test_impossible_event_is_a_bug(state, event):
    with pytest.raises(KeyError):
        advance(state, event)


def test_stop_ends_every_life():
    assert all((state, STOP) in TRANSITIONS for state in State)
