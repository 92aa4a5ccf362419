# SPDX-License-Identifier: Apache-2.0
"""The log of a server, with entries to wait for."""

from threading import Condition, Thread
from time import monotonic
from typing import IO, Any

from servekit.local_server.child import read_entry

__all__ = ["WAIT_S", "ServerLog"]

WAIT_S = 180.0


class ServerLog:
    """Collects the entries of a log of JSON lines; any other line becomes an entry too."""

    def __init__(self, stream: IO[str]) -> None:
        """Read *stream* to its end, in a thread; ``close`` closes it."""
        self.entries: list[dict[str, Any]] = []
        self._stream = stream
        self._is_over = False
        self._heard = Condition()
        self._thread = Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        """All of it, for people."""
        lines = [f"{entry.get('subject', '')} {entry['message']}" for entry in list(self.entries)]
        return "\n".join(map(str.strip, lines))

    def find(self, event: str, **members: Any) -> list[dict[str, Any]]:
        """Return the entries of this ``event`` with these members."""
        wanted = {"event": event, **members}
        return [entry for entry in list(self.entries) if wanted.items() <= entry.items()]

    def wait_for(self, event: str, *, count: int = 1, **members: Any) -> dict[str, Any]:
        """Return the last of the first *count* such entries; waits for it.

        :raises AssertionError: it did not appear in three minutes, or the server has ended.
        """
        deadline = monotonic() + WAIT_S
        with self._heard:
            while len(found := self.find(event, **members)) < count:
                if self._is_over or not self._heard.wait(deadline - monotonic()):
                    why = "and the server has ended" if self._is_over else f"after {WAIT_S:g} s"
                    raise AssertionError(f"{event} {members}: not logged {why}\n{self.text}")
        return found[count - 1]

    def close(self) -> None:
        """Wait for the end of the log of a server that has ended."""
        self._thread.join(WAIT_S)
        self._stream.close()

    def _listen(self) -> None:
        for line in self._stream:
            entry = read_entry(line)
            with self._heard:
                self.entries.append(entry)
                self._heard.notify_all()
        with self._heard:
            self._is_over = True
            self._heard.notify_all()
