# SPDX-License-Identifier: Apache-2.0
"""A command of ``servekit``, as a plugin offers it.

A ``StartupError`` that a command raises is printed, one line of stderr for each line of its text,
and the exit status is then 3.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from servekit_archiver.commands import Command, Configure, Run

__all__ = ["Command", "Configure", "Run", "RunningServer"]


class RunningServer(Protocol):
    """A running server, as its operator reaches it: over its private socket, or by its URL."""

    @property
    def shown(self) -> str:
        """How messages name it: ``the server with pid 4711``."""

    def ask(
        self, path: str, method: str = "GET", body: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        """Return the status and the document that the management listener answers.

        :param body: is sent as JSON.
        :raises StartupError: it does not answer, or not with JSON.
        """

    def get(self, path: str) -> Any:
        """Return the document at *path*.

        :raises StartupError: as ``ask``; or the answer is an error.
        """

    def check(self, status: int, document: Any) -> None:
        """Check that *status* is not that of an error.

        :raises StartupError: it is; the message has what the server says.
        """
