# SPDX-License-Identifier: Apache-2.0
"""The child that reads a model store, as the supervisor sees it."""

import os
import socket
import subprocess
from collections.abc import Callable

from servekit.errors import StartupError
from servekit.ipc.channel import ChannelClosed, FrameReader, encode_frame
from servekit.supervisor.os.child import Child, module_child
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.reporting.journal import Journal, Notice
from servekit.supervisor.store.messages import ReadStore, StoreContent

__all__ = ["StoreChild", "first_content"]

MODULE = "servekit.supervisor.store"
TIMEOUT_S = 60.0  #: longest first look


def first_content(request: ReadStore) -> StoreContent:
    """Return what is in the store now. Blocks: for the start, before the event loop runs.

    :raises StartupError: it is not a directory, or it cannot be read.
    """
    if not os.path.isdir(request.directory):  # noqa: PTH112 - never raises
        raise StartupError(f"model_store: {request.directory}: not a directory")
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(TIMEOUT_S)
        with theirs:
            spec = module_child(MODULE)(theirs.fileno())
            child = subprocess.Popen(
                spec.arguments, env=dict(spec.environment), pass_fds=spec.inherited
            )
        try:
            ours.sendall(encode_frame(request))
            reader: FrameReader[StoreContent] = FrameReader(ours, StoreContent)
            while not (messages := reader.read()):
                pass
        except (OSError, ChannelClosed) as error:
            raise StartupError(f"model_store: {request.directory}: {error}") from error
        finally:
            child.kill()
            child.wait()
    return messages[0]


class StoreChild:
    """One child of a running server, from its start to its end."""

    def __init__(
        self,
        loop: Loop,
        journal: Journal,
        request: ReadStore,
        on_content: Callable[[StoreContent], object],
    ) -> None:
        """Start it.

        :param on_content: gets what is in the store, once or at every change.
        """
        self._journal = journal
        self._is_watching = request.is_watched
        self._child: Child[StoreContent] | None = None
        try:
            self._child = Child(
                loop,
                module_child(MODULE),
                StoreContent,
                on_line=lambda line: journal.line("store", line),
                on_message=on_content,
                on_exit=self._exited,
            )
        except OSError as error:
            self._lost(f"cannot be read: {error.strerror}")
        else:
            self._child.send(request)

    @property
    def pid(self) -> int | None:
        """The pid, while it runs."""
        return self._child.process.pid if self._child else None

    def kill(self) -> None:
        """Kill it."""
        self._is_watching = False
        if self._child:
            self._child.process.kill()

    def _exited(self, exit_code: int) -> None:
        self._child = None
        if self._is_watching or exit_code > 0:
            self._lost(f"is not read any more: its process exited with {exit_code}")

    def _lost(self, text: str) -> None:
        self._journal.notice(Notice("store_not_read", "model store", text, "warning"))
