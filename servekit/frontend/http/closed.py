# SPDX-License-Identifier: Apache-2.0
"""Stands for a connection that is closed.

The parts of a connection refer to it, and it to them. If they still did once it is closed, only
the garbage collector could free them: after some thousand connections, in a pause of 100 ms
for everyone.
"""

from typing import Final

__all__ = ["CLOSED", "do_nothing"]


class ClosedConnection:
    """The parts of a closed connection refer to this: nothing happens to it any more."""

    has_next = False

    def on_data(self, data: bytes) -> None:
        """Drop *data*."""

    def on_end(self) -> None:
        """Do nothing."""

    def on_response(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


CLOSED: Final = ClosedConnection()


def do_nothing(*_: object) -> None:
    """Stand in for a callback that is not set, or no longer."""
