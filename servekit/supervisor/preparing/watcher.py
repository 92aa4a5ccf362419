# SPDX-License-Identifier: Apache-2.0
"""The child that watches the files of models, as the supervisor sees it."""

from collections.abc import Callable, Sequence

from servekit.settings.models import ModelSource
from servekit.supervisor.os.child import Child, module_child
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.preparing.messages import FileChanged, WatchBegan, WatchFiles
from servekit.supervisor.reporting.journal import Journal, Notice

__all__ = ["FileWatcher"]


class FileWatcher:
    """One watch child, from its start to its end."""

    def __init__(
        self,
        loop: Loop,
        journal: Journal,
        sources: Sequence[ModelSource],
        on_change: Callable[[ModelSource], object],
    ) -> None:
        """Start it; *on_change* gets the source whose files have changed.

        :raises OSError: it cannot be started.
        """
        self._journal, self._on_change = journal, on_change
        self._sources = [source for source in sources if not source.is_url]
        self._child: Child[WatchBegan | FileChanged] = Child(
            loop,
            module_child("servekit.supervisor.preparing.watch_files"),
            WatchBegan | FileChanged,
            on_line=lambda line: journal.line("watch", line),
            on_message=self._received,
            on_exit=self._exited,
        )
        self.pid: int | None = self._child.process.pid
        self._child.send(WatchFiles([source.file for source in self._sources]))

    def kill(self) -> None:
        """Kill it."""
        self._child.process.kill()

    def _received(self, message: WatchBegan | FileChanged) -> None:
        if isinstance(message, FileChanged):
            self._on_change(self._sources[message.place])
        else:
            text = "reloads what is saved from now on"
            self._journal.notice(Notice("watching", "servekit", text))

    def _exited(self, exit_code: int) -> None:
        self.pid = None
        text = f"exited with {exit_code}: changes are not noticed any more"
        self._journal.notice(Notice("watch_exited", "watch", text, "warning"))
