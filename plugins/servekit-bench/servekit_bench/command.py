# SPDX-License-Identifier: Apache-2.0
"""``servekit bench``: measures a server, or an archive, or compares two."""

import argparse
import os
import platform
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from servekit.errors import StartupError
from servekit.extension.commands import Run
from servekit_bench.load import Measurement
from servekit_bench.options import add_flags, load_of, target_options
from servekit_bench.progress import ProgressLine
from servekit_bench.report.bench_page import bench_page
from servekit_bench.report.figures import BenchReport, LoadFigures, TargetFigures
from servekit_bench.report.table import as_text, generator_warning
from servekit_bench.rounds import Measuring, alternate
from servekit_bench.targets import OpenTarget, opened

__all__ = ["bench"]

INTERRUPTED: Final = 130
FAILED: Final = 1
DURATION_S: Final = 10.0
ROUNDS: Final = 5  #: rounds of a comparison

EPILOG = """\
TARGET is the URL of a server (http://HOST:PORT, with the path of a prediction if it has several
models), unix:SOCKET, or an archive or a model directory, which is served on a free port of this
machine meanwhile. The examples of the model are sent, unless --input names files.

A closed loop keeps --connections busy: each sends its next request when the last one is answered.
An open loop sends --rate requests per second at fixed moments, whether or not earlier ones have
been answered; a latency runs from the moment at which the request was due, so it includes the
wait behind a stall.

Exit status 0: every request was answered with a 2xx; 1: some failed; 3: the target cannot be
reached or served; 130: Ctrl-C, after the figures until then.

examples:
  servekit bench http://127.0.0.1:8080
  servekit bench http://127.0.0.1:8080/digits/predict --rate 200 --duration 30s
  servekit bench digits.mar --connections 32 --input pictures/
  servekit bench digits.mar --set digits.replicas=2 --html report.html
"""


def bench(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("target", metavar="TARGET", help="URL, unix:SOCKET or archive")
    add_flags(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Measure, and print the report.

    :raises StartupError: a target cannot be reached or served.
    """
    progress = ProgressLine()
    try:
        report = _measure(parsed, progress)
    finally:
        progress.clear()
    if parsed.html:
        write_page(parsed.html, bench_page(report))
    if parsed.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print(as_text(report), end="")
    if report.was_stopped:
        return INTERRUPTED
    has_failed = any(r.failed + r.unanswered for target in report.targets for r in target.rounds)
    return FAILED if has_failed else 0


def write_page(path: Path, text: str) -> None:
    """Write a report.

    :raises StartupError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StartupError(f"--html: {path}: {error.strerror}") from error


def _measure(parsed: argparse.Namespace, progress: ProgressLine) -> BenchReport:
    began = datetime.now(UTC)
    load, duration_s = load_of(parsed), parsed.duration or DURATION_S
    with ExitStack() as stack:
        progress.show(f"preparing {parsed.target}")
        targets = [stack.enter_context(opened(parsed.target, target_options(parsed)))]
        measuring = Measuring(
            duration_s=duration_s,
            warmup_s=parsed.warm_up,
            timeout_s=parsed.timeout,
            processes=parsed.processes,
            deadline=monotonic() + parsed.deadline if parsed.deadline else float("inf"),
            progress=progress,
        )
        seen = alternate(targets, load, parsed.rounds or 1, measuring)
    figures = [_figures(*each) for each in zip(targets, seen, strict=True) if each[1]]
    return BenchReport(
        began=began.isoformat(timespec="seconds"),
        machine=f"{platform.node()}, {os.cpu_count()} cores, {platform.machine()}",
        load=LoadFigures.of(load),
        duration_s=duration_s,
        warmup_s=parsed.warm_up,
        targets=figures,
        warnings=[*_warnings(targets), *_generator_warnings(figures)],
        was_stopped=any(each.was_stopped for rounds in seen for each in rounds),
    )


def _figures(target: OpenTarget, seen: list[Measurement]) -> TargetFigures:
    return TargetFigures.of(target.name, target.url, len(target.target.requests), seen)


def _warnings(targets: list[OpenTarget]) -> list[str]:
    return [f"{each.name}: {warning}" for each in targets for warning in each.warnings]


def _generator_warnings(targets: list[TargetFigures]) -> list[str]:
    """Return a sentence for each target whose load was limited by the generator in some round."""
    found = [
        (target.name, max(target.rounds, key=lambda r: (r.generator.limit != "", r.generator.cpu)))
        for target in targets
    ]
    texts = [generator_warning(name, each.generator) for name, each in found]
    return [text for text in texts if text]
