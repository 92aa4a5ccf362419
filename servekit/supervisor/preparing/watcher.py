# SPDX-License-Identifier: Apache-2.0
"""The child that watches the files of models, seen from the supervisor."""

import os
import socket
from collections.abc import Callable, Sequence

import msgspec

from servekit.settings.models import ModelSource
from servekit.supervisor.os.channel import ControlChannel
from servekit.supervisor.os.environment import prepare_environment
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import Process, ProcessSpec, python_module
from servekit.supervisor.reporting.journal import Journal, Notice

__all__ = ["FileChanged", "FileWatcher", "WatchBegan", "WatchFiles"]


class WatchFiles(msgspec.Struct, array_like=True):
    """To the child, once: what to watch."""

    paths: list[str]


class WatchBegan(msgspec.Struct, array_like=True, tag=1):
    """From the child: every change from now on is noticed."""


class FileChanged(msgspec.Struct, array_like=True, tag=2):
    """From the child: the content at this place of ``paths`` is another one."""

    place: int


class FileWatcher:
    """One watching child, from its start to its end."""

    def __init__(
        self,
        loop: Loop,
        journal: Journal,
        sources: Sequence[ModelSource],
        on_change: Callable[[int], object],
    ) -> None:
        """Start it; *on_change* gets the place in *sources* of one whose files have changed.

        :raises OSError: it cannot be started.
        """
        self._journal, self._on_change = journal, on_change
        ours, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            command = ProcessSpec(
                arguments=python_module(
                    "servekit.supervisor.preparing.watch_files", str(os.getpid()), str(fd)
                ),
                environment=prepare_environment(os.environ),
                inherited=(fd,),
            )
            self._process = Process(
                loop, command, lambda line: journal.line("watch", line), self._exited
            )
        self.pid: int | None = self._process.pid
        self._link: ControlChannel[WatchBegan | FileChanged] = ControlChannel(
            loop, ours, WatchBegan | FileChanged, self._received, lambda: None
        )
        self._numbers = [n for n, source in enumerate(sources) if not source.is_url]
        self._link.send(WatchFiles([sources[number].path for number in self._numbers]))

    def kill(self) -> None:
        """End it."""
        self._process.kill()

    def _received(self, message: WatchBegan | FileChanged) -> None:
        if isinstance(message, FileChanged):
            self._on_change(self._numbers[message.place])
        else:
            self._journal.notice(
                Notice("watching", "servekit", "reloads what is saved from now on")
            )

    def _exited(self, exit_code: int) -> None:
        self._link.close()
        self.pid = None
        text = f"exited with {exit_code}: changes are not noticed any more"
        self._journal.notice(Notice("watch_exited", "watch", text, "warning"))
