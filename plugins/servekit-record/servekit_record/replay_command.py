# SPDX-License-Identifier: Apache-2.0
"""``servekit replay``: sends recorded requests again and compares the responses."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from servekit import serve
from servekit.settings.arguments import count, nonnegative
from servekit.testing import TOLERANCE
from servekit_record.comparison import ResponseComparison
from servekit_record.errors import CannotReplay
from servekit_record.feed import send_all
from servekit_record.recording import NotARecording, read_calls
from servekit_record.regression import test_text
from servekit_record.report import ReplayReport
from servekit_record.sending import Address

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from servekit_record.recording import RecordedCall
    from servekit_record.sending import ReplayedResponse

__all__ = ["configure"]

SAME: Final = 0
DIFFERENT: Final = 1
TOKEN: Final = "SERVEKIT_PREDICT_TOKEN"  # noqa: S105 - the name of a variable
PROGRESS_S: Final = 0.2
RECORDED: Final = "recorded"

EPILOG = f"""\
The exit status is 1 if a response differs. A token that the server wants is in {TOKEN}.

examples:
  servekit replay calls.rec digits-2.mar               start the archive, and compare
  servekit replay calls.rec http://127.0.0.1:8080 --version 2.0
  servekit replay calls.rec digits-2.mar --tolerance 1e-3 --ignore id --json
  servekit replay calls.rec http://10.0.0.7:8080 --connections 8 --pace recorded
  servekit replay calls.rec digits-2.mar --pytest tests/test_calls.py
"""


def configure(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Add the arguments, and return what runs the command."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add("recording", metavar="FILE", help="written by servekit record")
    add("target", metavar="URL|MODEL", help="a running server; or an archive or model directory")
    add("--version", default="", help="send to this version of each model")
    add(
        "--tolerance", type=nonnegative, default=TOLERANCE, help="of numbers (default: %(default)g)"
    )
    ignore_help = "members of bodies or events that may differ: choices.*.index"
    add("--ignore", action="append", default=[], metavar="PATH", help=ignore_help)
    add("--connections", type=count, default=1, metavar="N", help="used at once (default: 1)")
    pace_help = "one after the other, or at the times of the recording (default: fast)"
    add("--pace", choices=("fast", RECORDED), default="fast", help=pace_help)
    add("--first", type=count, metavar="N", help="only the first N calls")
    add("--pytest", metavar="FILE", help="write a test that does this, and send nothing")
    add("--json", action="store_true", help="print JSON")
    return run


def run(parsed: argparse.Namespace) -> int:
    """Replay, and report what differs.

    :raises CannotReplay: the recording or the target cannot be used.
    """
    try:
        _check_arguments(parsed)
        return _write_test(parsed) if parsed.pytest is not None else _replay(parsed)
    except NotARecording as error:
        raise CannotReplay(str(error)) from error
    except BrokenPipeError:  # nobody reads the report
        raise
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise CannotReplay(f"{place}{error.strerror or error}") from error


def _check_arguments(parsed: argparse.Namespace) -> None:
    """Check what can be checked before anything is read or started.

    :raises CannotReplay: the arguments do not fit together, or the recording is not a file.
    :raises OSError: the recording cannot be read.
    """
    mode = Path(parsed.recording).stat().st_mode
    if not stat.S_ISREG(mode):
        raise CannotReplay(f"{parsed.recording}: not a file; it is read more than once")
    if parsed.pytest is not None and "://" in parsed.target:
        raise CannotReplay("--pytest: the test starts the model, so it needs its path, not a URL")
    if parsed.pytest is not None and parsed.version:
        raise CannotReplay("--version: a test with --pytest starts one version of the model")


def _replay(parsed: argparse.Namespace) -> int:
    report = ReplayReport(ResponseComparison(parsed.tolerance, parsed.ignore))
    progress = ReplayProgress(report)
    _check_version(parsed)
    try:
        with _target(parsed) as address:
            keeps_pace = parsed.pace == RECORDED
            calls: Iterable[tuple[int, RecordedCall]] = enumerate(_calls(parsed), 1)
            if keeps_pace:
                calls = sorted(calls, key=lambda each: each[1].time_s)
            options = {"connections": parsed.connections, "keeps_pace": keeps_pace}
            send_all(calls, address, progress.take, **options)
    except KeyboardInterrupt:
        progress.clear()
        sys.stderr.write("interrupted: not all calls were sent\n")
        raise
    finally:
        progress.clear()
        if report.calls:
            _print(report, as_json=parsed.json)
    if not report.calls:
        raise CannotReplay(f"{parsed.recording}: has no calls")
    return DIFFERENT if report.differences else SAME


class ReplayProgress:
    """Hands answers to a report, and shows how many there are on a terminal."""

    def __init__(self, report: ReplayReport) -> None:
        """Show nothing yet."""
        self._report = report
        self._is_shown = sys.stderr.isatty()
        self._shown_at = 0.0  #: ``monotonic``

    def take(self, number: int, call: RecordedCall, answer: ReplayedResponse) -> None:
        """Compare an answer."""
        report, now = self._report, monotonic()
        report.take(number, call, answer)
        if self._is_shown and now >= self._shown_at + PROGRESS_S:
            self._shown_at = now
            sys.stderr.write(f"\r{report.calls} calls, {len(report.differences)} different ")

    def clear(self) -> None:
        """Remove what is shown."""
        if self._is_shown:
            sys.stderr.write("\r\033[K")


def _check_version(parsed: argparse.Namespace) -> None:
    """Check that ``--version`` applies to every call, before one is sent.

    :raises CannotReplay: a call came by the protocol of a plugin, whose paths only it knows.
    """
    for call in _calls(parsed) if parsed.version else ():
        if not (call.is_native and call.model):
            text = f"{call.target} is a path of a plugin's protocol, which is not changed"
            fix = "give it the traffic (servekit traffic)"
            raise CannotReplay(f"--version: {text}; {fix}, and leave --version out")


def _calls(parsed: argparse.Namespace) -> Iterator[RecordedCall]:
    return islice(read_calls(parsed.recording), parsed.first)


def _print(report: ReplayReport, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(report.document())).decode())
    else:
        print("\n".join(report.lines()))


@contextmanager
def _target(parsed: argparse.Namespace) -> Iterator[Address]:
    """Yield the address of the target; a model is started, and stopped at the end.

    :raises CannotReplay: there is no such model, or no server at the URL.
    """
    token = os.environ.get(TOKEN)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if "://" in parsed.target:
        address = Address(parsed.target, parsed.version, headers)
        address.check()
        yield address
        return
    with serve(_models(parsed), block=False, port=0) as server:
        yield Address(server.url, parsed.version, headers)


def _models(parsed: argparse.Namespace) -> dict[str, str]:
    """Return the target under the names of all models of the recording.

    :raises CannotReplay: there is nothing at its path.
    """
    if not Path(parsed.target).exists():
        raise CannotReplay(f"{parsed.target}: no such archive or model directory")
    names = {call.model for call in _calls(parsed) if call.model}
    if not names:
        raise CannotReplay(f"{parsed.recording}: has no calls")
    if len(names) > 1:
        shown = ", ".join(sorted(names))
        text = f"{parsed.recording}: a model can be started for calls of one model, not of: {shown}"
        raise CannotReplay(f"{text}; start a server, and give its URL")
    return {names.pop(): parsed.target}


def _write_test(parsed: argparse.Namespace) -> int:
    """Write a test that replays the recording.

    :raises CannotReplay: the file exists, or there is nothing to replay.
    """
    path = Path(parsed.pytest)
    (model,) = _models(parsed)
    with path.open("x") as file:
        file.write(test_text(path, parsed.recording, parsed.target, model, parsed))
    print(f"{path}: run it with pytest")
    return SAME
