# SPDX-License-Identifier: Apache-2.0
"""``servekit record``: writes requests of a running server and their responses to a file."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import quote

from servekit.errors import StartupError
from servekit.settings.arguments import NumberArgument, seconds, share, size_in_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from servekit.extension import RunningServer

__all__ = ["configure"]

recording_time: Final = NumberArgument(0, 86_400, seconds, is_above=True)

POLL_S: Final = 0.3
LAST_CALLS_S: Final = 1.5  #: for calls that began before the end of the recording
SLOW_S: Final = 30.0  #: for front-ends to write what they have recorded: a busy machine takes long
FAILED: Final = 1

EPILOG = """\
The server must allow it: servekit start --plugin record.allow=true. The file holds the bodies of
requests and responses, so only you can read it. Header fields that carry secrets (Authorization,
cookies, keys, tokens) are never recorded.

examples:
  servekit record -o calls.rec                         a minute of all requests
  servekit record -o calls.rec --model digits --share 0.01 --for 3600
  servekit record -o calls.rec --max-size 500M --redact X-Customer
  servekit record -o - --server https://models.example:8081 | head -n 100 > calls.rec
"""


def configure(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", required=True, help='a new file; "-": standard output')
    add("--model", metavar="NAME", default="", help="only requests of this model")
    add("--share", type=share, default=1.0, help="part of the requests, 0 to 1 (default: all)")
    add(
        "--for",
        dest="for_s",
        type=recording_time,
        default=60.0,
        metavar="TIME",
        help="default: 60s",
    )
    add("--max-size", type=size_in_bytes, default=100 << 20, metavar="SIZE", help="default: 100M")
    add("--redact", action="append", default=[], metavar="FIELD", help="leave this header out")
    return run


def run(parsed: argparse.Namespace) -> int:
    """Record until the time is over, the file is full, or Ctrl-C.

    :raises StartupError: the server cannot be reached or refuses, or the file cannot be written.
    """
    if parsed.output != "-":
        _check_output(Path(parsed.output))
    server: RunningServer = parsed.find_server(parsed)
    order = {
        "model": parsed.model,
        "share": parsed.share,
        "duration_s": parsed.for_s,
        "max_bytes": parsed.max_size,
        "redact": parsed.redact,
    }
    begun = _begin(server, order)
    path = f"/recordings/{begun['id']}"
    stop = StopSignal()
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        with _opened(parsed.output) as file:
            file.write(begun["head"].encode())
            writer = CallWriter(file, parsed.max_size)
            print(f"recording for {parsed.for_s:g} s; Ctrl-C ends it", file=sys.stderr, flush=True)
            try:
                _fetch(server, path, writer, stop)
            finally:
                _clear_progress()
                _tell(writer, parsed)
    finally:
        with suppress(StartupError):  # it is gone, and its files with it
            server.ask(path, "DELETE")
    return 0 if writer.calls else FAILED


class StopSignal:
    """Handles signals: the first ends a recording in good order, the second interrupts that."""

    def __init__(self) -> None:
        """No signal has been sent."""
        self.was_sent = False

    def __call__(self, _number: int, _frame: object) -> None:
        """Take a signal.

        :raises KeyboardInterrupt: it is not the first one.
        """
        if self.was_sent:
            raise KeyboardInterrupt
        self.was_sent = True


def _check_output(path: Path) -> None:
    """Check that a new file can be at *path*, before a server is asked.

    :raises StartupError: it cannot.
    """
    if path.exists():
        raise StartupError(f"--output: {path} exists")
    if not path.parent.is_dir():
        raise StartupError(f"--output: {path.parent}: no such directory")


def _tell(writer: CallWriter, parsed: argparse.Namespace) -> None:
    """Print how much was recorded; standard output may be the recording.

    A file without calls is removed, so that the command can be repeated.
    """
    file = parsed.output if writer.calls else None
    if file is None and parsed.output != "-":
        Path(parsed.output).unlink()
    told = {"calls": writer.calls, "bytes": writer.size, "file": file}
    shown = json.dumps(told) if parsed.json else writer.summary
    print(shown, file=sys.stderr if parsed.output == "-" else sys.stdout)


def _begin(server: RunningServer, order: dict[str, Any]) -> Any:
    status, document = server.ask("/recordings", "POST", order)
    if status == 404:
        hint = "start it with --plugin record.allow=true, and servekit-record installed"
        raise StartupError(f"{server.shown} does not allow recordings: {hint}")
    server.check(status, document)
    return document


def _opened(output: str) -> BinaryIO:
    """Open the file, which only its owner may read.

    :raises StartupError: it exists, or cannot be written.
    """
    if output == "-":
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    try:
        descriptor = os.open(Path(output), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise StartupError(f"--output: {output}: {error.strerror}") from error
    return os.fdopen(descriptor, "wb")


class CallWriter:
    """Writes whole lines, up to a size."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        """Write to *file*, at most *limit* bytes."""
        self._file, self._limit = file, limit
        self.calls = 0
        self.size = 0  #: bytes
        self.is_full = False

    @property
    def summary(self) -> str:
        """How much was written, for people."""
        if self.calls:
            full = ": the file is full (--max-size)" if self.is_full else ""
            calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
            return f"{calls}, {self.size:,} bytes{full}"
        if self.is_full:
            return "no calls: the first one is larger than --max-size"
        return "no calls: no model has answered a request in this time"

    def write(self, lines: list[str]) -> None:
        """Write as many of *lines* as there is room for."""
        for line in lines:
            encoded = line.encode() + b"\n"
            self.is_full = self.is_full or self.size + len(encoded) > self._limit
            if not self.is_full:
                self._file.write(encoded)
                self.calls, self.size = self.calls + 1, self.size + len(encoded)
        self._file.flush()


def _fetch(server: RunningServer, path: str, writer: CallWriter, stop: StopSignal) -> None:
    """Fetch calls until the recording has ended and all are here; *stop* ends it early."""
    after: dict[str, int] = {}
    until: float | None = None  #: ``monotonic``: no more calls come after it
    latest = inf  #: ``monotonic``: a front-end that has written nothing by then is not waited for
    has_more = True
    while until is None or has_more or monotonic() < until:
        if stop.was_sent and until is None:
            server.ask(f"{path}/stop", "POST")
            until, latest = _end_from_now()
        page = server.get(f"{path}/calls?after={quote(json.dumps(after))}")
        after = page["after"]
        writer.write(page["lines"])
        if until is None and (writer.is_full or not page["is_recording"]):
            until, latest = _end_from_now()
        has_more = not writer.is_full and _has_more(page, latest)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{writer.calls} calls, {writer.size:,} bytes ")
        if not page["lines"]:
            sleep(POLL_S)


def _end_from_now() -> tuple[float, float]:
    """Return until when calls are fetched, and until when late front-ends are waited for."""
    now = monotonic()
    return now + LAST_CALLS_S, now + SLOW_S


def _has_more(page: dict[str, Any], latest: float) -> bool:
    """Whether calls that were recorded may follow *page*."""
    return bool(page["lines"]) or (not page["is_complete"] and monotonic() < latest)


def _clear_progress() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
