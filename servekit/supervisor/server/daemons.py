# SPDX-License-Identifier: Apache-2.0
"""Programs that run beside the server, ``[[daemons]]``: started first, stopped last."""

import os
from collections.abc import Callable, Sequence
from functools import partial

from servekit.errors import StartupError
from servekit.settings.daemons import DaemonSpec
from servekit.supervisor.os.environment import prepare_environment
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import ProcessSpec
from servekit.supervisor.reporting.journal import Journal
from servekit.supervisor.server.kept_process import KeptProcess

__all__ = ["Daemons"]


def process_spec(daemon: DaemonSpec) -> ProcessSpec:
    """Return how to start *daemon*: it gets our environment without our settings."""
    return ProcessSpec(
        arguments=daemon.command,
        environment=prepare_environment(os.environ) | daemon.env,
        directory=daemon.directory,
    )


class Daemons:
    """All daemons of the server."""

    def __init__(
        self,
        loop: Loop,
        specs: Sequence[DaemonSpec],
        journal: Journal,
        on_change: Callable[[], object],
    ) -> None:
        """Start nothing yet; *on_change* is called when one starts, and when one is gone."""
        self._daemons = [
            (
                spec,
                KeptProcess(
                    loop, f"daemon/{spec.name}", partial(process_spec, spec), journal, on_change
                ),
            )
            for spec in specs
        ]

    @property
    def pids(self) -> set[int]:
        """The pids of those that run."""
        return {process.pid for _, process in self._daemons if process.pid is not None}

    @property
    def missing(self) -> list[str]:
        """The names of required daemons that do not run."""
        return [
            spec.name for spec, process in self._daemons if spec.required and process.pid is None
        ]

    def start(self) -> None:
        """Start each in the order of the file; none is waited for.

        :raises StartupError: there is no such program, or it may not be run.
        """
        for spec, process in self._daemons:
            try:
                process.start()
            except OSError as error:
                what = f"daemon {spec.name}: {spec.command[0]}"
                raise StartupError(f"{what}: {(error.strerror or '').lower()}") from error

    def stop(self) -> None:
        """Ask all to leave."""
        for _, process in self._daemons:
            process.stop()

    def kill(self) -> None:
        """Kill all."""
        for _, process in self._daemons:
            process.kill()
