# SPDX-License-Identifier: Apache-2.0
"""gunicorn adapted to front-ends: its heartbeat, its worker class and its arbiter."""

from __future__ import annotations

import gc
import os
import signal
import sys
from time import monotonic
from typing import Any, NoReturn

import gevent
from gevent import events, hub, monkey
from gunicorn.arbiter import Arbiter
from gunicorn.workers import base
from gunicorn.workers.ggevent import GeventWorker

from servekit.system.parent_death import die_with_parent

__all__ = ["FrontEndArbiter", "FrontEndWorker", "leave"]

HELD = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
#: many short collections instead of few long ones, should anything leave reference cycles; a full
#: one still waits until a quarter of all objects is new
COLLECT_AFTER = (700, 10, 2)
NOTIFY_S = 0.1  #: how soon a stop is noticed
YEARS_S = 10 * 365 * 86_400  #: longer than any jump of the clock


class Heartbeat:
    """Replaces gunicorn's ``WorkerTmp``, a file that cannot be created on a full disk."""

    def __init__(self, _cfg: object) -> None:
        """Create the shared memory."""
        self._descriptor = os.memfd_create("servekit-heartbeat", os.MFD_CLOEXEC)

    def notify(self) -> None:
        """Record that the process is alive."""
        now = monotonic()
        os.utime(self._descriptor, (now, now))

    def last_update(self) -> float:
        """Return when ``notify`` was called last (``monotonic``)."""
        return os.fstat(self._descriptor).st_mtime

    def fileno(self) -> int:
        """Return the descriptor that the processes share."""
        return self._descriptor

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


base.WorkerTmp = Heartbeat


class FrontEndWorker(GeventWorker):  # type: ignore[misc]
    """Serves a ``FrontEnd`` where gunicorn would run a WSGI server."""

    def __init__(self, *args: Any) -> None:
        """Take a share of the counters. Runs in the arbiter, before the fork."""
        super().__init__(*args)
        self.share = self.app.counters.give()

    def patch(self) -> None:
        """Let the blocking calls of Flask views and plugins yield; our own sockets never block."""
        # otherwise gevent searches all installed distributions for its plugins, 25 times
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
            listener.close()  # the front-end has copies of them
        while self.alive:
            self.notify()
            gevent.sleep(NOTIFY_S)
        draining = gevent.spawn(front_end.drain, front_end.core.settings.grace)
        while not draining.ready():
            self.notify()
            draining.join(NOTIFY_S)
        draining.get()


class FrontEndArbiter(Arbiter):  # type: ignore[misc]
    """gunicorn's arbiter with another SIGHUP, and a stop that does not depend on the wall clock."""

    def reload(self) -> None:
        """Start new front-ends with tokens, certificates and an access log that are read again.

        The main loop stops the old ones, because there are more than configured. Unlike gunicorn's
        ``reload`` this does not wait for them, so that a SIGTERM is noticed meanwhile.
        """
        self.app.reload()
        for _ in range(self.cfg.workers):
            self.spawn_worker()

    def spawn_worker(self) -> Any:
        """Fork with signals blocked until the child has handlers for them.

        Otherwise it could miss a SIGTERM.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        try:
            return super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)

    def stop(self, graceful: bool = True) -> None:
        """Stop the front-ends, which observe the grace period themselves.

        gunicorn would kill them by the wall clock, which may jump, and remove the files of Unix
        sockets, which belong to the supervisor.
        """
        self.systemd = True
        self.cfg.set("graceful_timeout", YEARS_S)
        super().stop(graceful)


def leave(status: str | int | None) -> NoReturn:
    """End this process at once: the interpreter would take long to free what the kernel frees."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))
