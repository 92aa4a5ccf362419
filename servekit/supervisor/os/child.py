# SPDX-License-Identifier: Apache-2.0
"""A child process with a control channel."""

import os
import socket
from collections.abc import Callable
from typing import Any, Generic

import msgspec

from servekit.supervisor.os.channel import ControlChannel, Message
from servekit.supervisor.os.environment import prepare_environment
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import Process, ProcessSpec, python_module

__all__ = ["Child", "module_child"]


def module_child(module: str) -> Callable[[int], ProcessSpec]:
    """Return how to start *module* with our pid and the descriptor of its control channel."""

    def make_spec(control: int) -> ProcessSpec:
        return ProcessSpec(
            arguments=python_module(module, str(os.getpid()), str(control)),
            environment=prepare_environment(os.environ),
            inherited=(control,),
        )

    return make_spec


class Child(Generic[Message]):
    """From spawn to exit."""

    def __init__(
        self,
        loop: Loop,
        make_spec: Callable[[int], ProcessSpec],
        messages: Any,
        *,
        on_line: Callable[[str], object],
        on_message: Callable[[Message], object],
        on_exit: Callable[[int], object],
        on_disconnect: Callable[[], object] = lambda: None,
    ) -> None:
        """Start it.

        :param make_spec: gets the descriptor of the child's end of the channel.
        :param messages: the union of the types that the child sends.
        :param on_line: gets each line that it prints.
        :param on_exit: gets the exit code, after the last line and the last message.
        :param on_disconnect: called when it closes the channel before it exits.
        :raises OSError: it cannot be started.
        """
        self._on_exit = on_exit
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.process = Process(loop, make_spec(theirs.fileno()), on_line, self._exited)
            except OSError:
                ours.close()
                raise
        self._channel: ControlChannel[Message] = ControlChannel(
            loop, ours, messages, on_message, on_disconnect
        )

    def send(self, message: msgspec.Struct) -> None:
        """Send *message* as soon as the child takes it."""
        self._channel.send(message)

    def _exited(self, exit_code: int) -> None:
        self._channel.read()
        self._channel.close()
        self._on_exit(exit_code)
