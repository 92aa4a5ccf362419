# SPDX-License-Identifier: Apache-2.0
"""The process that writes the files of ``--log-dir``, as the supervisor sees it."""

import fcntl
import json
import os
import select
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Final

from servekit.errors import StartupError
from servekit.ipc.kept_log import LOG_LEVELS
from servekit.log_files.names import file_name
from servekit.settings import Settings
from servekit.supervisor.os.guard import MARK
from servekit.supervisor.os.loop import WRITE, Loop
from servekit.supervisor.os.process import Process, ProcessSpec, python_module
from servekit.supervisor.reporting.journal import Journal, Notice
from servekit.supervisor.reporting.log import Log
from servekit.supervisor.server.kept_process import KeptProcess
from servekit.system.appending import open_directory

__all__ = ["FiledLog"]

SUBJECT: Final = "log-files"  #: in the log
MAX_WAITING_BYTES: Final = 1 << 22  #: records, while the disk is slow; more are dropped
PIPE_BYTES: Final = 1 << 20
LAST_WAIT_S: Final = 1.0  #: for the last records, when the server has ended


class FiledLog(Log):
    """The log of the server, which is also written to files if there is a directory for them."""

    def __init__(self, loop: Loop, settings: Settings, display: Journal) -> None:
        """Start nothing yet.

        :raises StartupError: the directory cannot be used, or another server uses it.
        """
        super().__init__(display)
        self._files = LogFiles(loop, settings, self) if settings.log_dir else None
        if self._files:
            self.takers.append(self._files.take)

    @property
    def pid(self) -> int | None:
        """The pid of the process that writes files, while it runs."""
        return self._files.pid if self._files else None

    def start(self) -> None:
        """Start that process."""
        if self._files:
            self._files.try_to_start()

    def finish(self, error: StartupError | None) -> None:
        """Write the last records, with the *error* that ends the server. May wait a bit."""
        self.close()
        if self._files:
            if error:
                self._files.take(Notice("failed", "servekit", str(error), "error"))
            self._files.finish()


class LogFiles(KeptProcess):
    """Sends records to the process; they are dropped if it does not keep up."""

    def __init__(self, loop: Loop, settings: Settings, journal: Journal) -> None:
        """Take the directory of *settings* for this server alone; start nothing yet.

        :raises StartupError: it cannot be used, or another server uses it.
        """
        super().__init__(loop, SUBJECT, self._spec, journal, lambda: None)
        self._settings = settings
        self._waiting = bytearray()
        self._dropped = 0
        self._is_within_line = False  #: the last write to the pipe ended there
        self._reading = self._writing = -1
        self._lock = _taken(Path(settings.log_dir))

    def take(self, record: Notice) -> None:
        """Write *record* later, unless it is about ourselves or a notice below ``log_level``."""
        is_printed = record.event in ("output", "log")
        is_quiet = LOG_LEVELS.index(record.level) < LOG_LEVELS.index(self._settings.log_level)
        if record.subject == SUBJECT or (is_quiet and not is_printed):
            return
        if len(self._waiting) > MAX_WAITING_BYTES:
            self._dropped += 1
            return
        if self._dropped:
            text, self._dropped = f"lines lost before this one: {self._dropped}", 0
            self._waiting += _line(Notice("lines_lost", "servekit", text, "warning"))
        self._waiting += _line(record)
        self._flush()

    def finish(self) -> None:
        """Wait until the last records are written. Blocks, but not for long."""
        self._is_stopping = True
        deadline = monotonic() + LAST_WAIT_S
        while self._waiting and self._writing >= 0 and monotonic() < deadline:
            poll = select.poll()
            poll.register(self._writing, select.POLLOUT)
            poll.poll(LAST_WAIT_S * 1000)
            self._flush()
        self._disconnect()
        if self._process:
            self._process.end(max(0.0, deadline - monotonic()))
        os.close(self._lock)

    def _spec(self) -> ProcessSpec:
        self._disconnect()
        self._reading, self._writing = os.pipe()
        with suppress(OSError):  # pipes of this user may be limited
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self._writing, False)
        settings, environment = self._settings, dict(os.environ)
        environment.pop(MARK, None)  # it ends with the pipe, after the last record
        return ProcessSpec(
            arguments=python_module(
                "servekit.log_files",
                *("--directory", settings.log_dir),
                *("--pipe", str(self._reading)),
                *("--size", str(settings.log_file_size)),
                *("--keep", str(settings.log_files)),
            ),
            environment=environment,
            inherited=(self._reading,),
        )

    def _started(self, _process: Process) -> None:
        os.close(self._reading)
        self._reading = -1
        self._flush()

    def _flush(self) -> None:
        """Write until the pipe is full."""
        try:
            while self._waiting and self._writing >= 0:
                count = os.write(self._writing, self._waiting)
                self._is_within_line = self._waiting[count - 1] != ord("\n")
                del self._waiting[:count]
        except BlockingIOError:
            self._loop.watch(self._writing, lambda _events: self._flush(), WRITE)
        except OSError:  # it has ended; the next one gets the rest
            self._disconnect()
        else:
            if self._writing >= 0:
                self._loop.unwatch(self._writing)

    def _disconnect(self) -> None:
        for descriptor in (self._reading, self._writing):
            if descriptor >= 0:
                self._loop.unwatch(descriptor)
                os.close(descriptor)
        self._reading = self._writing = -1
        if self._is_within_line:  # the next process cannot use the rest
            del self._waiting[: self._waiting.index(b"\n") + 1]
            self._is_within_line = False


def _taken(path: Path) -> int:
    """Return a descriptor of the directory *path*, locked; made if it does not exist.

    :raises StartupError: that is not possible.
    """
    try:
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
        place = open_directory(str(path))
    except OSError as error:
        raise StartupError(f"log_dir: {path}: {error.strerror}") from error
    problem = "" if os.access(path, os.W_OK | os.X_OK) else "this user cannot write there"
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        problem = "another server writes there"
    if problem:
        os.close(place)
        raise StartupError(f"log_dir: {path}: {problem}")
    return place


def _line(record: Notice) -> bytes:
    """Return *record* for the process: the name of its file, a tab, JSON and a line break."""
    members = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "level": record.level,
        "event": record.event,
        "subject": record.subject,
        "message": record.text,
        **record.members,
    }
    text = json.dumps(members, separators=(",", ":"), default=str)
    return f"{file_name(record.place.model)}\t{text}\n".encode()
