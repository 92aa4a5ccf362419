# SPDX-License-Identifier: Apache-2.0
"""``servekit start`` as a child of a Python program: a script, a notebook, a test.

A supervisor owns the signals of its process, adopts orphans and forks, so it never runs in the
process of the caller. The child ends with the process that started it.
"""

import atexit
import inspect
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast, overload

from servekit.errors import StartupError
from servekit.settings import SettingsError, load_settings
from servekit.settings.models import model_sources
from servekit.settings.values import is_url, split_model

if TYPE_CHECKING:
    from servekit.service.base import Service

__all__ = [
    "LocalServer",
    "ModelLike",
    "Models",
    "read_entry",
    "serve",
    "start_command",
    "start_logged",
]

#: an archive or a model directory, ``service.py:Class``, a URL, or a class of a file
ModelLike: TypeAlias = "str | os.PathLike[str] | type[Service]"
Models: TypeAlias = "Mapping[str, ModelLike] | ModelLike"  #: name to model, or one model

INTERRUPTED = 130  #: the exit status after Ctrl-C during the start
MARGIN_S = 15.0  #: a server that stops takes ``drain_delay`` and ``grace``, and then this at most
LAST_LINES = 20  #: lines of the log in the message of an error
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
OUTPUT = "output"  #: the event of a line that is not a log entry
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
    texts = _model_texts(models)
    limit_s = _check(texts, settings)
    if block:
        _serve_here(start_command(texts, settings))
        return None
    if "log_format" in settings:
        raise SettingsError("log_format: the log of a server in the background is read by servekit")
    return LocalServer(start_command(texts, {**settings, "log_format": "json"}), limit_s)


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        text = f"{entry.get('subject', '')} {entry['message']}".strip()
        level = logging.getLevelNamesMapping().get(str(entry.get("level", "info")).upper())
        self._last_lines.append(text)
        LOGGER.log(level or logging.INFO, "%s", text)
        if entry["event"] == "serving" and not self.url:
            self.url = str(entry["url"])
            self._has_begun.set()


def read_entry(line: str) -> dict[str, Any]:
    """Return the log entry that *line* is; another line becomes the message of one."""
    line = line.rstrip("\n")
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    is_entry = isinstance(entry, dict) and {"event", "message"} <= entry.keys()
    return entry if is_entry else {"event": OUTPUT, "message": line}


# ---------------------------------------------------------------- the child


def start_command(models: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """Return the command that serves *models* as a child of this process."""
    tethered = [sys.executable, "-P", "-m", "servekit.cli.tethered", str(os.getpid())]
    return [*tethered, "start", *models, *_flags(settings)]


def start_logged(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start *command* with its log at ``stdout``; it ends with the calling thread."""
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C in the terminal is for the parent, which then stops it
    )


def _serve_here(command: Sequence[str]) -> None:
    """Run *command* with our input and output until it has ended."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        with _signals_forwarded(process):
            status = process.wait()
    finally:
        process.kill()
        process.wait()
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status:
        raise StartupError(f"the server exited with {status}; its log says why")


@contextmanager
def _signals_forwarded(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass signals on to *process*; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, lambda number, _: process.send_signal(number))
        for number in FORWARDED
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _flags(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as one would type them."""
    flags: list[str] = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            for each in value if isinstance(value, list | tuple) else [value]:
                flags += [f"--{flag}", str(each)]
    return flags


# ---------------------------------------------------------------- models


def _check(models: Sequence[str], settings: Mapping[str, Any]) -> float:
    """Return how long the server may take to stop.

    :raises StartupError: the server would refuse *models* or *settings*.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    if main is not None and main.name.startswith("servekit."):
        below = 'call it below `if __name__ == "__main__":`'
        raise StartupError(f"serve() is called when a worker imports this file; {below}")
    checked = load_settings({**settings, "models": models})
    model_sources(checked)
    return checked.drain_delay + checked.grace + MARGIN_S


def _model_texts(models: Models) -> list[str]:
    """Return models as one would type them, with absolute paths."""
    if isinstance(models, Mapping):
        return [f"{name}={_path(model)}" for name, model in models.items()]
    return [_path(models)]


def _path(model: ModelLike) -> str:
    if isinstance(model, type):
        return _class_path(model)
    name, path = split_model(os.fspath(model))
    path = path if is_url(path) else os.path.abspath(path)  # noqa: PTH100 - a link may move
    return f"{name}={path}" if name else path


def _class_path(service: type) -> str:
    """Return ``/dir/service.py:Class``.

    :raises StartupError: no worker could import the class.
    """
    name = service.__qualname__
    try:
        file = inspect.getsourcefile(service)
    except (OSError, TypeError):  # defined at a prompt, or built in
        file = None
    if file is None or not file.endswith(".py") or not os.path.exists(file):  # noqa: PTH110
        raise StartupError(f"{name}: workers cannot import a class that is not defined in a file")
    if "." in name:
        raise StartupError(f"{name}: workers can only import a class at the top level of its file")
    return f"{os.path.abspath(file)}:{name}"  # noqa: PTH100 - a link may move
