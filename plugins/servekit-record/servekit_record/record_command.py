# SPDX-License-Identifier: Apache-2.0
"""``servekit record``: writes requests of a running server and their responses to a file."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import quote

from servekit.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.extension import RunningServer

__all__ = ["configure"]

POLL_S: Final = 0.3
LAST_CALLS_S: Final = 1.5  #: front-ends write their last calls in this time
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
UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def configure(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", required=True, help='a new file; "-": standard output')
    add("--model", metavar="NAME", default="", help="only requests of this model")
    add("--share", type=float, default=1.0, help="part of the requests, 0 to 1 (default: all)")
    add("--for", dest="for_s", type=float, default=60.0, metavar="S", help="seconds (default: 60)")
    add("--max-size", type=_size, default=100 << 20, metavar="SIZE", help="default: 100M")
    add("--redact", action="append", default=[], metavar="FIELD", help="leave this header out")
    return run


def _size(text: str) -> int:
    """Read ``100M``."""
    number, unit = text.rstrip("KMGiBb"), text.lstrip("0123456789").upper().removesuffix("B")
    try:
        return int(number) * UNITS[unit.removesuffix("I")]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 100M") from None


def run(parsed: argparse.Namespace) -> int:
    """Record until the time is over, the file is full, or Ctrl-C.

    :raises StartupError: the server cannot be reached or refuses, or the file cannot be written.
    """
    server: RunningServer = parsed.find_server(parsed)
    if parsed.output != "-" and Path(parsed.output).exists():
        raise StartupError(f"--output: {parsed.output} exists")
    order = {
        "model": parsed.model,
        "share": parsed.share,
        "duration_s": parsed.for_s,
        "max_bytes": parsed.max_size,
        "redact": parsed.redact,
    }
    begun = _begin(server, order)
    path = f"/recordings/{begun['id']}"
    try:
        with _opened(parsed.output) as file:
            file.write(begun["head"].encode())
            writer = CallWriter(file, parsed.max_size)
            print(f"recording for {parsed.for_s:g} s; Ctrl-C ends it", file=sys.stderr, flush=True)
            _fetch(server, path, writer)
    finally:
        server.ask(path, "DELETE")
    told = {"calls": writer.calls, "bytes": writer.size, "file": parsed.output}
    text = json.dumps(told) if parsed.json else f"{writer.calls} calls, {writer.size:,} bytes"
    print(text, file=sys.stderr if parsed.output == "-" else sys.stdout)
    return 0 if writer.calls else FAILED


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

    def write(self, lines: list[str]) -> None:
        """Write as many of *lines* as there is room for."""
        for line in lines:
            encoded = line.encode() + b"\n"
            self.is_full = self.is_full or self.size + len(encoded) > self._limit
            if not self.is_full:
                self._file.write(encoded)
                self.calls, self.size = self.calls + 1, self.size + len(encoded)
        self._file.flush()


def _fetch(server: RunningServer, path: str, writer: CallWriter) -> None:
    """Fetch calls until the recording has ended and all are here. Ctrl-C ends it early."""
    after: dict[str, int] = {}
    until: float | None = None  #: ``monotonic``: no more calls come after it
    show_progress = sys.stderr.isatty()
    while until is None or monotonic() < until:
        try:
            page = server.get(f"{path}/calls?after={quote(json.dumps(after))}")
            after = page["after"]
            writer.write(page["lines"])
            if until is None and (writer.is_full or not page["is_recording"]):
                until = monotonic() + LAST_CALLS_S
            if show_progress:
                sys.stderr.write(f"\r{writer.calls} calls, {writer.size:,} bytes ")
            if not page["lines"]:
                sleep(POLL_S)
        except KeyboardInterrupt:
            if until is not None:
                raise
            server.ask(f"{path}/stop", "POST")
            until = monotonic() + LAST_CALLS_S
    if show_progress:
        sys.stderr.write("\r\033[K")
