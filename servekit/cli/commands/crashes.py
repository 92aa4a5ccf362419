# SPDX-License-Identifier: Apache-2.0
"""``servekit crashes``: which workers of a running server crashed, hung or could not load."""

import argparse
import json
from collections.abc import Iterator

import msgspec

from servekit.cli.parsing.exit_status import OK
from servekit.cli.server import finding
from servekit.cli.server.connection import ManagedServer
from servekit.extension.commands import Run
from servekit.ipc.crash_reports import CrashReport, read_all

__all__ = ["crashes"]

EPILOG = """\
A server keeps the newest 100 reports until it stops.

examples:
  servekit crashes                          of the only running server
  servekit crashes --model digits --json
  servekit crashes --run-dir /run/servekit --pid 4711
  servekit crashes --server https://models.example:8081
"""


def crashes(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    finding.add_arguments(parser)
    parser.add_argument("--model", metavar="NAME", help="only crashes of this model")
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print the reports, newest last.

    :raises NoServer: no such server runs.
    :raises RequestRefused: the server refuses the request.
    """
    server = finding.find_server(parsed)
    every = _remote(server) if server.run_dir is None else read_all(server.run_dir)
    reports = [report for report in every if parsed.model in (None, report.model)]
    if parsed.json:
        print(json.dumps(msgspec.to_builtins(reports), indent=2))
    else:
        print("\n\n".join("\n".join(lines_of(report)) for report in reports) or "no crashes")
    return OK


def _remote(server: ManagedServer) -> list[CrashReport]:
    """Return the reports of a server that runs elsewhere."""
    return msgspec.convert(server.get("/crashes")["crashes"], list[CrashReport])


def lines_of(report: CrashReport) -> Iterator[str]:
    """Yield one report for people."""
    index = None if report.replica is None else str(report.replica)
    worker = "/".join(filter(None, (report.model, report.stage, index)))
    yield f"{report.time}  {worker}  {report.cause}"
    if report.pid is not None:
        ended = report.signal or f"exit code {report.exit_code}"
        yield f"  worker    pid {report.pid}, generation {report.generation}, {ended}"
    if report.replica is not None:
        yield f"  lived     {_life(report)}"
    yield f"  next      {_next(report)}"
    if report.request_ids:
        yield f"  requests  {' '.join(report.request_ids)}"
    yield from (f"  | {line}" for line in report.last_lines)


def _life(report: CrashReport) -> str:
    if report.served_s is None:
        return f"{report.lived_s:.1f} s, and was never ready"
    return f"{report.lived_s:.1f} s, of which it served {report.served_s:.1f} s"


def _next(report: CrashReport) -> str:
    if report.restart_s is None:
        return "not replaced"
    if report.has_given_up:
        return f"failed too often, one try in {report.restart_s:.0f} s"
    return f"replaced after {report.restart_s:.1f} s"
