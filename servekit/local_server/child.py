# SPDX-License-Identifier: Apache-2.0
"""``servekit start`` as a child of a Python program: a script, a notebook, a test.

A supervisor owns the signals of its process, adopts orphans and forks, so it never runs in the
process of the caller. The child ends with the thread that started it.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from servekit.errors import StartupError

__all__ = ["read_entry", "run_here", "start_command", "start_logged", "text_of"]

INTERRUPTED = 130  #: the exit status after Ctrl-C during the start
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
OUTPUT = "output"  #: the event of a line that is not a log entry


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


def _flags(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as one would type them; ``None`` is not given."""
    flags: list[str] = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            for each in value if isinstance(value, list | tuple) else [value]:
                flags += [f"--{flag}", str(each)]
    return flags


def read_entry(line: str) -> dict[str, Any]:
    """Return the log entry that *line* is; another line becomes the message of one."""
    line = line.rstrip("\n")
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    is_entry = isinstance(entry, dict) and {"event", "message"} <= entry.keys()
    return entry if is_entry else {"event": OUTPUT, "message": line}


def text_of(entry: Mapping[str, Any]) -> str:
    """Return a log entry as people read it: of whom it is, the message, and the traceback."""
    subject = entry.get("subject", "")
    about = f"{subject} " if subject and subject != "servekit" else ""
    traceback = entry.get("traceback", "")
    return f"{about}{entry['message']}\n{traceback}".strip()


def run_here(command: Sequence[str]) -> None:
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
