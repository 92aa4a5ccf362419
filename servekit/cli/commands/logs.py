# SPDX-License-Identifier: Apache-2.0
"""``servekit logs``: the last lines of a running server's log, and those that follow."""

import argparse
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from servekit.cli.parsing.exit_status import OK
from servekit.cli.server import finding
from servekit.cli.server.log_pages import server_log
from servekit.errors import StartupError
from servekit.extension.commands import Run
from servekit.ipc.kept_log import LOG_LEVELS, LogEntry, LogFilter
from servekit.log_files.reading import LogDirectory
from servekit.settings.arguments import seconds, whole

__all__ = ["logs"]

EPILOG = f"""\
A server keeps about the last mebibyte of its log in memory until it stops. The whole log is what
`servekit start` prints: journald or the container's runtime has it, for example. With --log-dir,
the command reads the files of a server that was started with it, running or not.

--follow continues when the server is restarted.

{finding.ABOUT}
examples:
  servekit logs                             the last 100 lines
  servekit logs digits -n 20                of one model and its workers
  servekit logs --since 10m --level warning
  servekit logs --follow                    until Ctrl-C
  servekit logs --json --follow             one object for each line
  servekit logs --log-dir /var/log/servekit digits
"""


def logs(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    finding.add_arguments(parser)
    parser.add_argument("model", nargs="?", metavar="MODEL", default="", help="default: everything")
    parser.add_argument("--log-dir", type=Path, metavar="DIR", help="read the log files in DIR")
    parser.add_argument("-f", "--follow", action="store_true", help="wait for more lines")
    parser.add_argument(
        "-n", "--lines", type=whole, metavar="N", help="how many; default 100, or all with --since"
    )
    parser.add_argument(
        "--since", metavar="TIME", default="", help="30s, 10m, 2h, 1d, or 2026-11-21T10:02"
    )
    parser.add_argument(
        "--level", choices=LOG_LEVELS, default="debug", help="the lowest to show; default: all"
    )
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print the lines.

    :raises StartupError: ``--since`` is not a time.
    :raises NoLogFiles: there are none in ``--log-dir``.
    :raises NoServer: no such server runs, or it does not answer.
    :raises RequestRefused: the server refuses the request.
    """
    wanted = LogFilter(parsed.model, parsed.level, _since(parsed.since))
    most = parsed.lines if parsed.lines is not None else 1_000_000 if parsed.since else 100
    try:
        entries = _of_files if parsed.log_dir else server_log
        for entry in entries(parsed, wanted, most):
            shown = msgspec.json.encode(entry).decode() if parsed.json else _shown(entry)
            print(shown, flush=True)
    except KeyboardInterrupt:  # the way to end --follow
        pass
    return OK


def _of_files(parsed: argparse.Namespace, wanted: LogFilter, most: int) -> Iterator[LogEntry]:
    """Yield the last *most* entries of the files, and with ``--follow`` those that come."""
    with closing(LogDirectory(parsed.log_dir, wanted)) as log:
        yield from log.last(most)
        if parsed.follow:
            yield from log.follow()


def _since(text: str) -> str:
    """Return the earliest time as records have it; a time without an offset is that of this place.

    :raises StartupError: *text* is neither a duration nor a time.
    """
    if not text:
        return ""
    try:
        if text[-1].isalpha() and text[-1] != "Z":
            earliest = datetime.now(UTC) - timedelta(seconds=seconds(text))
        else:
            earliest = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise StartupError(
            f"--since: {text!r} is not a duration such as 10m, or a time such as 2026-11-21T10:02"
        ) from error
    return earliest.isoformat(timespec="milliseconds")


def _shown(entry: LogEntry) -> str:
    """Return *entry* as ``servekit start`` prints it, after its time; a traceback in full."""
    is_output = entry.event in ("output", "log")
    head = f"{entry.time}  {entry.subject}{' |' if is_output else ''} "
    level = f"{entry.level}: " if entry.event == "log" else ""
    lines = entry.traceback.splitlines() or [entry.message]
    return "\n".join(f"{head}{level}{line}" for line in lines)
