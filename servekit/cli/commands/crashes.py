# SPDX-License-Identifier: Apache-2.0
"""``servekit crashes``: which workers of a running server crashed, hung or could not load.

It also writes the requests that they held as commands of curl, or as tests.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Final

import msgspec

from servekit.cli.parsing.exit_status import OK
from servekit.cli.server import finding
from servekit.cli.server.connection import ManagedServer
from servekit.errors import StartupError
from servekit.extension.commands import Run
from servekit.extension.replay import ReplayForm, replay_text
from servekit.ipc.crash_reports import CrashReport, HeldRequest, read, read_all
from servekit.settings.arguments import count

__all__ = ["crashes"]

URL: Final = "http://127.0.0.1:8080"
EPILOG = """\
A server keeps the newest 100 reports until it stops. The body of a request is in the command, or in
the test, only if the server runs with --keep-bodies.

examples:
  servekit crashes                          of the only running server
  servekit crashes --model digits --json
  servekit crashes --run-dir /run/servekit --pid 4711
  servekit crashes --server https://models.example:8081
  servekit crashes show 3                   report 3 alone
  servekit crashes show 3 --curl            its request as a command of curl
  servekit crashes show 3 --pytest > test_crash_3.py
"""


class NoReport(StartupError):
    """There is no such crash report, or no such request in it."""


def crashes(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("show", nargs="?", metavar="show", help="show one report")
    parser.add_argument("number", nargs="?", type=count, metavar="N", help="number of the report")
    finding.add_arguments(parser)
    parser.add_argument("--model", metavar="NAME", help="only crashes of this model")
    form = parser.add_mutually_exclusive_group()
    for name, what in {"curl": "a command of curl", "pytest": "a test"}.items():
        text = f"with show: print its request as {what}"
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=text)
    parser.add_argument("--request", metavar="ID", help="which one, if the worker held several")
    parser.add_argument("--url", help=f"the server that curl asks; default: this one, or {URL}")
    return lambda parsed: _run(parser, parsed)


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> int:
    """Print the reports, newest last, or one of them.

    :raises NoServer: no such server runs.
    :raises RequestRefused: the server refuses the request.
    :raises NoReport: there is no such report or request.
    """
    if parsed.show not in (None, "show"):
        parser.error(f"{parsed.show!r} is not known; one report: servekit crashes show N")
    if (parsed.show is None) != (parsed.number is None):
        parser.error("show needs the number of a report")
    if parsed.show is None and (parsed.form or parsed.request):
        parser.error("--curl, --pytest and --request need: show N")
    server = finding.find_server(parsed)
    if parsed.show is not None:
        report = _one(server, parsed.number)
        here = server.get("/")["url"] if server.run_dir and not parsed.url else ""
        url = parsed.url or here or URL
        print(_shown(report, parsed, url), end="")
        return OK
    every = _remote(server) if server.run_dir is None else read_all(server.run_dir)
    reports = [report for report in every if parsed.model in (None, report.model)]
    about = f" of {parsed.model}" if parsed.model else ""
    if parsed.json:
        print(json.dumps(msgspec.to_builtins(reports), indent=2))
    else:
        print(
            "\n\n".join("\n".join(lines_of(report)) for report in reports) or f"no crashes{about}"
        )
    return OK


def _one(server: ManagedServer, number: int) -> CrashReport:
    if server.run_dir is None:
        return msgspec.convert(server.get(f"/crashes/{number}"), CrashReport)
    try:
        return read(server.run_dir, number)
    except OSError:
        raise NoReport(f"there is no crash report {number}; servekit crashes lists them") from None


def _shown(report: CrashReport, parsed: argparse.Namespace, url: str) -> str:
    """Return *report*, or its request for the server at *url*, as *parsed* asks for it."""
    if parsed.form is not None:
        form: ReplayForm = parsed.form
        return replay_text(report, _request(report, parsed.request), form, url)
    if parsed.json:
        return json.dumps(msgspec.to_builtins(report), indent=2) + "\n"
    return "".join(f"{line}\n" for line in lines_of(report))


def _request(report: CrashReport, request_id: str | None) -> HeldRequest:
    """Return the request of *report* to send again.

    :raises NoReport: there is none, or not one with this id, or several.
    """
    found = [each for each in report.requests if each.method]
    if request_id is not None:
        found = [each for each in found if each.request_id == request_id]
    if not found:
        which = f"request {request_id}" if request_id else "request that can be sent again"
        raise NoReport(f"crash report {report.number} has no {which}")
    if len(found) > 1:
        ids = " ".join(each.request_id for each in found)
        raise NoReport(f"the worker held {len(found)} requests, choose with --request: {ids}")
    return found[0]


def _remote(server: ManagedServer) -> list[CrashReport]:
    """Return the reports of a server that runs elsewhere."""
    return msgspec.convert(server.get("/crashes")["crashes"], list[CrashReport])


def lines_of(report: CrashReport) -> Iterator[str]:
    """Yield one report for people."""
    index = None if report.replica is None else str(report.replica)
    worker = "/".join(filter(None, (report.model, report.stage, index)))
    yield f"{report.time}  {worker}  {report.cause}"
    yield f"  report    {report.number}"
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
