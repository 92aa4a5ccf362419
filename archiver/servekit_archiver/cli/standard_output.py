# SPDX-License-Identifier: Apache-2.0
"""Standard output that may be full, closed, or a pipe that nobody reads any more."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final

from servekit_archiver.cli.exit_status import REFUSED

__all__ = ["with_standard_output"]

STDOUT: Final = 1
STDERR: Final = 2


class _OutputFailed(Exception):
    """A write to standard output failed. Not an ``OSError``: argparse ignores those."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


class _Output:
    """A stream whose errors are not mistaken for those of files."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write *text*, possibly later."""
        with _told_apart():
            return int(self._stream.write(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write *lines* without adding line breaks."""
        with _told_apart():
            self._stream.writelines(lines)

    def flush(self) -> None:
        """Write everything that is still in the buffer."""
        with _told_apart():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _OutputFailed(error) from error


def with_standard_output(program: str, run: Callable[[], int]) -> int:
    """Return what *run* returns, or ``REFUSED`` if its output cannot be written.

    That is one line on stderr, which begins with *program*; none if the reader of a pipe has seen
    enough. Streams that are closed are replaced by ``/dev/null``.
    """
    _open_closed_streams()
    stream = sys.stdout
    checked: Any = _Output(stream)
    try:
        with redirect_stdout(checked):
            try:
                status = run()
            except SystemExit:  # the help, the version
                checked.flush()
                raise
            checked.flush()
            return status
    except _OutputFailed as failed:
        _point_to_nothing(stream.fileno())  # the interpreter writes what is left when it exits
        if not isinstance(failed.error, BrokenPipeError):
            sys.stderr.write(f"{program}: standard output: {failed.error.strerror}\n")
        return REFUSED


def _open_closed_streams() -> None:
    """Replace streams that were closed when the process began, so that no file takes their place.

    Python has ``None`` for them; a socket that is opened later would have their number.
    """
    for name, number in (("stdout", STDOUT), ("stderr", STDERR)):
        if getattr(sys, name) is None:
            _point_to_nothing(number)
            nothing = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays
            setattr(sys, name, nothing)


def _point_to_nothing(number: int) -> None:
    """Let the descriptor *number* be ``/dev/null``, for child processes too."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, number)
    if nothing != number:
        os.close(nothing)
