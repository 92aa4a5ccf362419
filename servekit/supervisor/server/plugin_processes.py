# SPDX-License-Identifier: Apache-2.0
"""The processes that plugins have beside the server; front-ends report which.

They stop first: what they have accepted passes through the front-ends.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial

from servekit.ipc.control import ProcessRow
from servekit.supervisor.os.environment import prepare_environment
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import ProcessSpec, python_module
from servekit.supervisor.reporting.journal import Journal
from servekit.supervisor.server.kept_process import KeptProcess

__all__ = ["PluginProcesses"]


def process_spec(row: ProcessRow) -> ProcessSpec:
    """Return how to start the process of *row*: it gets our environment without our settings."""
    return ProcessSpec(
        arguments=python_module(row.module, *row.arguments),
        environment=prepare_environment(os.environ) | {"PYTHONUNBUFFERED": "1"},
    )


class PluginProcesses:
    """All processes of plugins."""

    def __init__(
        self, loop: Loop, journal: Journal, grace_s: float, on_change: Callable[[], object]
    ) -> None:
        """Start nothing yet.

        :param grace_s: from the request to stop to SIGKILL.
        :param on_change: called when one starts, and when one is gone.
        """
        self._loop = loop
        self._journal = journal
        self._grace_s = grace_s
        self._on_change = on_change
        self._processes: dict[str, tuple[ProcessRow, KeptProcess]] = {}
        self._is_stopping = False

    @property
    def pids(self) -> set[int]:
        """The pids of those that run."""
        found = (process.pid for _, process in self._processes.values())
        return {pid for pid in found if pid is not None}

    @property
    def missing(self) -> list[str]:
        """The names of required ones that do not run."""
        return [
            name
            for name, (row, process) in self._processes.items()
            if row.is_required and process.pid is None
        ]

    def want(self, rows: Sequence[ProcessRow]) -> None:
        """Start what a front-end reports, unless it has been started.

        The next front-ends report the same: settings of plugins do not change while a server runs.
        """
        for row in rows if not self._is_stopping else ():
            if row.name not in self._processes:
                process = KeptProcess(
                    self._loop,
                    f"process/{row.name}",
                    partial(process_spec, row),
                    self._journal,
                    self._on_change,
                    leave_s=self._grace_s,
                )
                self._processes[row.name] = row, process
                process.try_to_start()

    def stop(self) -> None:
        """Ask all to finish what they have begun and exit."""
        self._is_stopping = True
        for _, process in self._processes.values():
            process.stop()

    def kill(self) -> None:
        """Kill all."""
        for _, process in self._processes.values():
            process.kill()
