# SPDX-License-Identifier: Apache-2.0
"""``make bench``: measure, print the report, exit with 0 only when every answer was right."""

import argparse
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Final

from tests.benchmarks import closed_loop, idle, open_loop, options, publish, report, targets
from tests.benchmarks.environments import debian_program
from tests.benchmarks.errors import BenchmarkError, Missing
from tests.benchmarks.failed import Failed, LeftOut
from tests.benchmarks.machine import read_machine
from tests.benchmarks.results import Results

FAILED: Final = 1  #: a wrong answer, an error under load, or a server that did not run
INTERRUPTED: Final = 130  #: Ctrl-C or SIGTERM; everything was ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit status."""
    chosen = options.parse(argv)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores SIGINT
        signal.signal(number, _interrupt)
    try:
        return _run(chosen)
    except BenchmarkError as error:
        print(f"\nbench: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("\nbench: interrupted; every server was ended", file=sys.stderr)
        return INTERRUPTED


def _run(chosen: argparse.Namespace) -> int:
    results = _prepare(chosen)
    servers, plan = list(results.servers), results.plan
    failed = Failed()
    results.closed = closed_loop.run(servers, results.cases, plan, _progress, failed)
    _save(results, chosen)  # what follows takes long, and may fail
    if "open-loop" in chosen.workloads:
        results.open = open_loop.run(servers, plan, _progress, failed)
        _save(results, chosen)
    if {"start-up", "memory"} & set(chosen.workloads):
        results.idle = idle.run(servers, plan, _progress, failed)
    _progress("")
    results.left_out += failed.found.values()
    _tell(results, chosen)
    return _status(results) or (FAILED if failed.found else 0)


def _prepare(chosen: argparse.Namespace) -> Results:
    """Install what is to be measured, and look at the machine."""
    debian_program("wrk")
    machine = read_machine()
    versions, missing = {}, []
    for server in options.servers(chosen):
        _progress(f"preparing {server.title}")
        try:
            server.install()
        except Missing as reason:
            missing.append(LeftOut(server.title, "every workload", str(reason)))
            print(f"\nbench: left out: {server.title}: {reason}", file=sys.stderr)
        else:
            versions[server] = server.version()
    results = Results(machine=machine, plan=options.plan(chosen), servers=versions)
    results.cases = options.cases(chosen)
    results.left_out = missing + [
        LeftOut(server.title, case.key, reason)
        for server in versions
        for case in results.cases
        if (reason := server.refuses(case)) is not None
    ]
    return results


def _tell(results: Results, chosen: argparse.Namespace) -> None:
    judged = targets.judge(results)
    text = report.markdown(results, judged)
    print(text, end="")
    _save(results, chosen)
    if chosen.publish:
        publish.write(results, judged, text)


def _save(results: Results, chosen: argparse.Namespace) -> None:
    """Write what has been measured so far, if a file was asked for."""
    if chosen.json:
        chosen.json.write_text(results.as_json(targets.judge(results)), encoding="utf-8")


def _status(results: Results) -> int:
    """Name every server that failed a request, on stderr, and return the exit status."""
    failed = {s.server for s in results.closed if s.errors}
    failed |= {s.server for s in results.open if s.errors}
    if failed:
        names = ", ".join(sorted(failed))
        print(f"bench: failed requests (see the errors column): {names}", file=sys.stderr)
    return FAILED if failed else 0


def _progress(text: str) -> None:
    """Show one line that is overwritten on a terminal, and kept elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the run by an exception, so that every server is ended on the way out."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
