# SPDX-License-Identifier: Apache-2.0
"""The application that gunicorn runs: it reads shared files, and makes the front-ends."""

from __future__ import annotations

import gc
import os
import socket
from typing import TYPE_CHECKING, Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter

# All that a front-end runs is imported before gunicorn forks: its processes share the pages.
from servekit.errors import StartupError
from servekit.frontend.server.assembly import NO_ADDRESS, Assembly
from servekit.frontend.server.gunicorn import FrontEndArbiter, FrontEndWorker, leave
from servekit.frontend.server.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from servekit.frontend.exchange.connection_shares import ConnectionShares
    from servekit.frontend.server.front_end import FrontEnd
    from servekit.ipc.counters import Counters
    from servekit.settings import Settings

__all__ = ["Application"]

HUNG_S = 10  #: a front-end that does not respond for longer is replaced, and its jobs are lost
MAX_REASON_BYTES = 4096  #: of the message why a front-end cannot be made


class Application(BaseApplication):  # type: ignore[misc]
    """Lives in the arbiter, and after each fork in a front-end, where gunicorn calls ``load``."""

    def __init__(
        self,
        settings: Settings,
        run_dir: Path,
        listeners: Sequence[int],
        manage: Sequence[int],
        counters: Counters,
        stdout: int | None = None,
    ) -> None:
        """Serve on the inherited descriptors *listeners*, and management on those of *manage*.

        :param counters: shared by all front-ends, past and future.
        :param stdout: descriptor of the server's standard output, if the access log goes there.
        :raises StartupError: a required plugin, a token file, a certificate or a library is missing
            or invalid, or a setting of a plugin is.
        """
        self._settings = settings
        self._run_dir = run_dir
        self._listeners = listeners
        self._address = address_of(listeners)
        self.counters = counters
        self._manage = [socket.socket(fileno=number) for number in manage]
        self._stdout = stdout
        self._resources = Resources.read(settings, stdout)
        self.front_end: FrontEnd | None = None  #: after ``load``
        self._assembly: Assembly | None = None
        self._load_error = os.memfd_create("servekit-load-error", os.MFD_CLOEXEC)
        super().__init__()

    @property
    def shares(self) -> ConnectionShares | None:
        """The connections of each front-end; ``None`` if there is only one."""
        return self._resources.shares

    def load_config(self) -> None:
        """Configure gunicorn; everything else is in ``Settings``."""
        settings = {
            "bind": [f"fd://{listener}" for listener in self._listeners],
            "workers": self._settings.front_ends,
            "worker_class": FrontEndWorker,
            "graceful_timeout": int(self._settings.grace) + 2,  # they observe the grace
            "timeout": HUNG_S,
            "proc_name": "servekit",
            "loglevel": "warning",
            "errorlog": "-",
            "control_socket_disable": True,  # it would be a thread, and a socket in the home
            "child_exit": lambda _arbiter, worker: self.counters.merge(worker.share),
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def run(self) -> None:
        """Run the arbiter until it is stopped.

        :raises StartupError: a front-end could not be made.
        """
        self.counters.merge_all()
        gc.collect()
        gc.freeze()  # the collector would write to every shared page, and so copy it
        try:
            FrontEndArbiter(self).run()
        except SystemExit as end:  # raised by the arbiter, or by a front-end that it has forked
            if end.code == Arbiter.APP_LOAD_ERROR:
                reason = os.pread(self._load_error, MAX_REASON_BYTES, 0).decode(errors="replace")
                raise StartupError(reason) from end
            leave(end.code)

    def reload(self) -> None:
        """Read tokens and certificates again, and open the access log again."""
        self._resources = self._resources.reread(self._settings, self._stdout)

    def load(self) -> Any:
        """Make the front-end of this process and return its Flask app.

        If that fails, the arbiter ends and reports why.
        """
        try:
            self._assembly = Assembly(
                self._settings, self._run_dir, self.counters, self._address, self._resources
            )
        except StartupError as error:
            os.pwrite(self._load_error, str(error).encode()[:MAX_REASON_BYTES], 0)
            leave(Arbiter.APP_LOAD_ERROR)
        self.front_end = self._assembly.front_end
        gc.freeze()  # these objects stay, so the collector need not look at them
        return self._assembly.application

    def manage(self) -> None:
        """Serve management, too."""
        assert self._assembly is not None, "load comes first"
        self._assembly.manage(self._manage)


def address_of(listeners: Sequence[int]) -> tuple[str, int]:
    """Return host and port of the first TCP listener, which Flask knows the server by."""
    for number in listeners:
        with socket.socket(fileno=os.dup(number)) as copy:
            if copy.family != socket.AF_UNIX:
                host, port = copy.getsockname()[:2]
                return host, port
    return NO_ADDRESS
