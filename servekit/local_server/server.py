# SPDX-License-Identifier: Apache-2.0
"""``serve``: a server that a Python program starts, until it is stopped or in the background."""

import atexit
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal, Self, cast, overload

from servekit.errors import StartupError
from servekit.local_server.child import (
    read_entry,
    run_here,
    start_command,
    start_logged,
    text_of,
)
from servekit.local_server.models import Models, check, model_texts
from servekit.settings import SettingsError

if TYPE_CHECKING:
    import subprocess

__all__ = ["LocalServer", "serve"]

MARGIN_S = 15.0  #: a server that stops takes ``drain_delay`` and ``grace``, and then this at most
LAST_LINES = 20  #: lines of the log in the message of an error
LOGGER = logging.getLogger("servekit")


@overload
def serve(models: Models, *, block: Literal[True] = True, **settings: Any) -> None: ...


@overload
def serve(models: Models, *, block: Literal[False], **settings: Any) -> "LocalServer": ...


def serve(models: Models, *, block: bool = True, **settings: Any) -> "LocalServer | None":
    """Serve *models*, as ``servekit start`` does: until it is stopped, or in the background.

    :param models: name to model, or one model under its own name. A model is the path of an archive
        or a model directory, ``"service.py:Class"``, a URL that a plugin opens, or a ``Service``
        class that a file defines.
    :param block: whether to return only when the server has ended. Signals of this process are
        passed on to it, so Ctrl-C stops it. Otherwise the server runs until ``stop``, or the end of
        a ``with``, or of this process; its log is passed to the logger ``servekit``.
    :param settings: options of ``servekit start``: ``port=0, replicas=2, max_body="1MiB"``.
    :raises StartupError: a model or setting is refused, or nothing can be served.
    :raises KeyboardInterrupt: Ctrl-C came before it was serving.
    """
    texts = model_texts(models)
    checked = check(texts, settings)
    if block:
        run_here(start_command(texts, settings))
        return None
    if "log_format" in settings:
        raise SettingsError("log_format: the log of a server in the background is read by servekit")
    command = start_command(texts, {**settings, "log_format": "json"})
    return LocalServer(command, checked.drain_delay + checked.grace + MARGIN_S)


class LocalServer:
    """A server that runs in the background; it has begun to serve."""

    def __init__(self, command: Sequence[str], stop_timeout_s: float) -> None:
        """Start *command*, whose log is JSON, and wait until it serves.

        :raises StartupError: it ended before; the message holds the last lines of its log.
        """
        self._stop_timeout_s = stop_timeout_s
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._has_started = threading.Event()  #: the process is there, or cannot be
        self._has_begun = threading.Event()  #: it serves, or has ended
        self._process: subprocess.Popen[str] | None = None
        self._error: OSError | None = None
        self.url = ""  #: ``http://127.0.0.1:8080``
        # the kernel ends a process with the thread that started it: not that of the caller
        self._reader = threading.Thread(target=self._run, args=(command,), daemon=True)
        self._reader.start()
        atexit.register(self.stop)
        try:
            self._has_begun.wait()
        except BaseException:  # Ctrl-C
            self.stop()
            raise
        if not self.url:
            self.stop()
            raise StartupError("\n".join(self._last_lines) or f"cannot be started: {self._error}")

    @property
    def pid(self) -> int:
        """The process id of its supervisor, as for ``servekit status --pid``."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Finish the requests in flight and end, as after SIGTERM. Blocks until it has ended."""
        atexit.unregister(self.stop)
        self._has_started.wait()
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(self._stop_timeout_s)
        finally:
            process.kill()
            process.wait()
            self._reader.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _run(self, command: Sequence[str]) -> None:
        """Start the server and read its log to the end. Runs in: its own thread."""
        try:
            self._process = start_logged(command)
            self._has_started.set()
            with cast("IO[str]", self._process.stdout) as log:
                for line in log:
                    self._take(read_entry(line))
        except OSError as error:
            self._error = error
        finally:
            self._has_started.set()
            self._has_begun.set()

    def _take(self, entry: Mapping[str, Any]) -> None:
        text = text_of(entry)
        level = logging.getLevelNamesMapping().get(str(entry.get("level", "info")).upper())
        self._last_lines.extend(text.splitlines())
        LOGGER.log(level or logging.INFO, "%s", text)
        if entry["event"] == "serving" and not self.url:
            self.url = str(entry["url"])
            self._has_begun.set()
