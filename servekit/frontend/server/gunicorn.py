# SPDX-License-Identifier: Apache-2.0
"""servekit's front-end inside gunicorn: the application object and the gevent worker class."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import gevent
from gevent import events, hub, monkey
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers import base
from gunicorn.workers.ggevent import GeventWorker

# All that a front-end runs is imported before gunicorn forks: its processes share the pages.
from servekit.errors import StartupError
from servekit.frontend.middleware.access_log import AccessLog, open_access_log
from servekit.frontend.middleware.compression import create_codings
from servekit.frontend.server.assembly import Assembly, Resources
from servekit.frontend.server.connection_shares import ConnectionShares
from servekit.frontend.server.contributions import check_settings
from servekit.plugins import create_plugin_manager
from servekit.settings.tls import server_context
from servekit.settings.tokens import read_tokens
from servekit.system.parent_death import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from servekit.ipc.counters import Counters
    from servekit.settings import Settings

__all__ = ["Application", "FrontEndWorker"]

HELD = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
HUNG_S = 10  #: a front-end that says nothing for so long is replaced, and its jobs are lost
#: what closed connections leave in circles is collected in pauses of some ms, not of a hundred;
#: a full collection still waits until a quarter of all that lives is new
COLLECT_AFTER = (700, 10, 2)
MAX_REASON_BYTES = 4096  #: why a front-end cannot be made
NOTIFY_S = 0.1  #: how soon a stop is noticed
YEARS_S = 10 * 365 * 86_400  #: no jump of the clock is longer

Read = TypeVar("Read")

log = logging.getLogger("servekit.frontend")


class Heartbeat:
    """Stands for gunicorn's file of the same use, which a full disk has no room for."""

    def __init__(self, _cfg: object) -> None:
        """Have never beaten."""
        self._descriptor = os.memfd_create("servekit-heartbeat", os.MFD_CLOEXEC)

    def notify(self) -> None:
        """Note that the process lives."""
        now = monotonic()
        os.utime(self._descriptor, (now, now))

    def last_update(self) -> float:
        """Return when it was noted last."""
        return os.fstat(self._descriptor).st_mtime

    def fileno(self) -> int:
        """Return the descriptor that the processes share."""
        return self._descriptor

    def close(self) -> None:
        """Give it back."""
        os.close(self._descriptor)


base.WorkerTmp = Heartbeat


class FrontEndWorker(GeventWorker):  # type: ignore[misc]
    """Serves a ``FrontEnd`` where gunicorn would run a WSGI server."""

    def __init__(self, *args: Any) -> None:
        """Be forked soon. Runs in the arbiter."""
        super().__init__(*args)
        self.share = self.app.counters.give()

    def patch(self) -> None:
        """Let the blocking calls of Flask views and plugins yield; our own sockets never block."""
        # Else gevent looks through every installed distribution for plugins of its own, 25 times.
        events.notify_and_call_entry_points = events.notify
        monkey.patch_all()

    def init_signals(self) -> None:
        """Handle signals; those that came since the fork are handled now."""
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)

    def init_process(self) -> None:
        """Prepare a freshly forked front-end."""
        die_with_parent(self.ppid)
        self.patch()
        hub.reinit()
        base.Worker.init_process(self)

    def run(self) -> None:
        """Serve until told to stop, then drain."""
        front_end = self.app.front_end
        if self.app.shares is not None:
            self.app.shares.join(self.age)
        front_end.start(listener.sock for listener in self.sockets)
        self.app.manage()
        gc.set_threshold(*COLLECT_AFTER)
        for listener in self.sockets:
            listener.close()  # the front-end has copies, and the last one to close counts
        while self.alive:
            self.notify()
            gevent.sleep(NOTIFY_S)
        draining = gevent.spawn(front_end.drain, front_end.core.settings.grace)
        while not draining.ready():
            self.notify()
            draining.join(NOTIFY_S)
        draining.get()


class FrontEndArbiter(Arbiter):  # type: ignore[misc]
    """gunicorn's own, but for the clock by which it stops, and for SIGHUP."""

    def reload(self) -> None:
        """Read anew what SIGHUP reads anew, and start new front-ends.

        The old ones are more than there should be, so the main loop tells them to leave;
        unlike gunicorn's own reload this waits for none, so a SIGTERM is heard meanwhile.
        """
        self.app.reload()
        for _ in range(self.cfg.workers):
            self.spawn_worker()

    def spawn_worker(self) -> Any:
        """Fork with the signals held back that the child has no handlers for yet.

        It would lose them, and with SIGTERM its end.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        try:
            return super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)

    def stop(self, graceful: bool = True) -> None:
        """End the front-ends, which keep to the grace themselves.

        gunicorn kills them when the wall clock says so, and that may jump.
        """
        self.cfg.set("graceful_timeout", YEARS_S)
        super().stop(graceful)


class Application(BaseApplication):  # type: ignore[misc]
    """What gunicorn loads in each worker: one ``FrontEnd`` and its Flask app."""

    def __init__(
        self,
        settings: Settings,
        run_dir: Path,
        listener: int,
        manage: Sequence[int],
        counters: Counters,
        stdout: int | None = None,
    ) -> None:
        """Serve on the inherited descriptor *listener*, and management on those of *manage*.

        :param counters: of all front-ends that there were and will be.
        :param stdout: that of the server, if the access log goes there.
        :raises StartupError: a required plugin, a token file, a certificate or a library is not
            as it should be.
        """
        self._settings = settings
        self._run_dir = run_dir
        self._listener = listener
        with socket.socket(fileno=os.dup(listener)) as copy:
            self._address = copy.getsockname()[:2]
        self.counters = counters
        self._manage = [socket.socket(fileno=number) for number in manage]
        self._stdout = stdout
        self._plugins = create_plugin_manager(required=settings.require_plugins)
        check_settings(settings, self._plugins)
        self._tokens = read_tokens(settings)
        self._tls = server_context(settings)
        self._codings = create_codings(settings)
        self._access_log = open_access_log(settings, stdout)
        self.shares = ConnectionShares() if settings.front_ends > 1 else None
        self.front_end: Any = None
        self._assembly: Any = None
        self._load_error = os.memfd_create("servekit-load-error", os.MFD_CLOEXEC)
        super().__init__()

    def load_config(self) -> None:
        """Tell gunicorn what it needs to know; all else is ours."""
        settings = {
            "bind": f"fd://{self._listener}",
            "workers": self._settings.front_ends,
            "worker_class": FrontEndWorker,
            "graceful_timeout": int(self._settings.grace) + 2,  # we keep to the grace ourselves
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
        """Be the arbiter until told to stop."""
        self.counters.merge_all()
        gc.collect()
        gc.freeze()  # the collector would write to, and so copy, every page that was shared
        try:
            FrontEndArbiter(self).run()
        except SystemExit as end:  # of the arbiter, or of a front-end that it has forked
            if end.code == Arbiter.APP_LOAD_ERROR:
                reason = os.pread(self._load_error, MAX_REASON_BYTES, 0).decode(errors="replace")
                raise StartupError(reason) from end
            leave(end.code)

    def reload(self) -> None:
        """Read tokens and certificates, open the access log anew; the settings stay as they are."""
        self._tokens = self._reread(read_tokens, self._tokens)
        self._tls = self._reread(server_context, self._tls)
        old, self._access_log = self._access_log, self._reread(self._open_log, self._access_log)
        if old is not None and old is not self._access_log:
            old.close()

    def _open_log(self, settings: Settings) -> AccessLog | None:
        return open_access_log(settings, self._stdout)

    def load(self) -> Any:
        """Make this process's front-end and return its Flask app.

        If that fails, the arbiter ends and says why.
        """
        resources = Resources(
            plugins=self._plugins,
            tokens=self._tokens,
            tls=self._tls,
            codings=self._codings,
            access_log=self._access_log,
            shares=self.shares,
        )
        try:
            self._assembly = Assembly(
                self._settings, self._run_dir, self.counters, self._address, resources
            )
        except StartupError as error:
            os.pwrite(self._load_error, str(error).encode()[:MAX_REASON_BYTES], 0)
            leave(Arbiter.APP_LOAD_ERROR)
        self.front_end = self._assembly.front_end
        gc.freeze()  # nor need it look at what stays, while everybody waits
        return self._assembly.application

    def manage(self) -> None:
        """Serve management too."""
        self._assembly.manage(self._manage)

    def _reread(self, read: Callable[[Settings], Read], old: Read) -> Read:
        """Return what the files say now; one that went bad changes nothing."""
        try:
            return read(self._settings)
        except StartupError as error:
            log.error("%s; what was read before stays in use", error)  # noqa: TRY400 - says it all
            return old


def leave(status: str | int | None) -> NoReturn:
    """End this process at once: the interpreter would take long to free what the kernel frees."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))
