# SPDX-License-Identifier: Apache-2.0
"""The life of a replica as a table of states and events, without clock and process."""

from enum import Enum, auto
from typing import Final

__all__ = ["TRANSITIONS", "Event", "State", "advance"]


class State(Enum):
    """The state of a replica."""

    STARTING = auto()  #: a worker boots
    SERVING = auto()  #: a worker is ready
    BACKOFF = auto()  #: the last worker is gone, the next one starts after a wait
    STOPPING = auto()  #: the worker was told to leave
    STOPPED = auto()  #: no worker, and none will follow
    FAILED = auto()  #: too many workers died; one is tried now and then


class Event(Enum):
    """An event in the life of a replica."""

    READY = auto()  #: the worker said ``Ready``
    EXITED = auto()  #: the worker's process ended, or could not be started
    GAVE_UP = auto()  #: its workers exited too often
    RETRY = auto()  #: the wait is over
    STOP = auto()  #: asked to leave


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.STARTING, Event.READY): State.SERVING,
    (State.STARTING, Event.EXITED): State.BACKOFF,
    (State.STARTING, Event.STOP): State.STOPPING,
    (State.SERVING, Event.EXITED): State.BACKOFF,
    (State.SERVING, Event.STOP): State.STOPPING,
    (State.BACKOFF, Event.RETRY): State.STARTING,
    (State.BACKOFF, Event.GAVE_UP): State.FAILED,
    (State.BACKOFF, Event.STOP): State.STOPPED,
    (State.FAILED, Event.RETRY): State.STARTING,
    (State.FAILED, Event.STOP): State.STOPPED,
    (State.STOPPING, Event.READY): State.STOPPING,  # became ready as we said stop
    (State.STOPPING, Event.STOP): State.STOPPING,  # the second signal
    (State.STOPPING, Event.EXITED): State.STOPPED,
    (State.STOPPED, Event.STOP): State.STOPPED,
}


def advance(state: State, event: Event) -> State:
    """Return the state after *event*; a ``KeyError`` means a bug in the caller."""
    return TRANSITIONS[state, event]
