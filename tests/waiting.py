# SPDX-License-Identifier: Apache-2.0
"""How tests wait: until something holds, with a deadline and a message."""

from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import Final, TypeVar

__all__ = ["WAIT_S", "wait_for_value", "wait_until"]

WAIT_S: Final = 60.0
POLL_S: Final = 0.01

Found = TypeVar("Found")


def wait_until(
    condition: Callable[[], Found], what: str, within_s: float = WAIT_S, every_s: float = POLL_S
) -> Found:
    """Poll *condition* until it returns something true; return that.

    :param what: what is waited for, or what is wrong until then: for the message.
    """
    deadline, pause = monotonic() + within_s, Event()
    while not (found := condition()):
        assert monotonic() < deadline, f"waited {within_s:g} s: {what}"
        pause.wait(every_s)
    return found


def wait_for_value(
    read: Callable[[], object], expected: object, what: str, within_s: float = WAIT_S
) -> None:
    """Call *read* until it returns *expected*; the message says what it returned last.

    :param what: what has this value: for the message.
    """
    deadline, pause = monotonic() + within_s, Event()
    while (found := read()) != expected:
        message = f"waited {within_s:g} s: {what}: {found!r}, expected {expected!r}"
        assert monotonic() < deadline, message
        pause.wait(POLL_S)
