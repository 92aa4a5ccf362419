# SPDX-License-Identifier: Apache-2.0
"""``servekit bench``: measures a server or an archive, compares two, or finds their limit."""

import argparse
import os
import platform
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from servekit.errors import StartupError
from servekit.extension.commands import Run
from servekit_bench.load import Load, Measurement
from servekit_bench.options import add_flags, add_search, load_of, target_options
from servekit_bench.progress import ProgressLine
from servekit_bench.report.bench_page import bench_page
from servekit_bench.report.bench_report import BenchReport
from servekit_bench.report.figures import LoadFigures, SaturationFigures, TargetFigures
from servekit_bench.report.limits import generator_warning, limit_warnings
from servekit_bench.report.table import as_text
from servekit_bench.report.verdict import compare
from servekit_bench.rounds import Measuring, alternate
from servekit_bench.saturation import find_saturation
from servekit_bench.targets import OpenTarget, opened

__all__ = ["bench"]

INTERRUPTED: Final = 130
FAILED: Final = 1
DURATION_S: Final = 10.0
COMPARED_S: Final = 5.0
STEP_S: Final = 3.0  #: duration of a step of a search
ROUNDS: Final = 5  #: rounds of a comparison

EPILOG = """\
TARGET is the URL of a server (http://HOST:PORT, with the path of a prediction if it has several
models), unix:SOCKET, or an archive or a model directory, which is served on a free port of this
machine meanwhile. The examples of the model are sent, unless --input names files.

A closed loop keeps --connections busy: each sends its next request when the last one is answered.
An open loop sends --rate requests per second at fixed moments, whether or not earlier ones have
been answered; a latency runs from the moment at which the request was due, so it includes the
wait behind a stall.

With OTHER, both are measured in alternating rounds, and the report says whether they differ by
more than the rounds do among themselves.

Exit status 0: every request was answered with a 2xx; 1: some failed; 3: the target cannot be
reached or served; 130: Ctrl-C or the deadline, after the figures until then.

examples:
  servekit bench http://127.0.0.1:8080
  servekit bench http://127.0.0.1:8080/digits/predict --rate 200 --duration 30s
  servekit bench digits.mar --connections 32 --input pictures/
  servekit bench digits.mar --set digits.replicas=2 --html report.html
  servekit bench old.mar new.mar --rate 100
  servekit bench digits.mar digits.mar --other-set digits.batching.max_delay_ms=5
  servekit bench digits.mar --saturation --p99 20ms
"""


def bench(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("target", metavar="TARGET", help="URL, unix:SOCKET or archive")
    parser.add_argument("other", nargs="?", metavar="OTHER", help="another one to compare with")
    add_search(parser)
    add_flags(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Measure, and print the report.

    :raises StartupError: a target cannot be reached or served, or flags do not go together.
    """
    if parsed.saturation and (parsed.other or parsed.rate or parsed.connections):
        raise StartupError("--saturation: chooses the load, and has one target")
    if parsed.p99 and not parsed.saturation:
        raise StartupError("--p99: needs --saturation")
    progress = ProgressLine()
    try:
        with ExitStack() as stack:
            targets = _open(parsed, stack, progress)
            measuring = _measuring(parsed, progress)
            search = _search if parsed.saturation else _measure
            report = search(parsed, targets, measuring)
    finally:
        progress.clear()
    _show(parsed, report)
    return INTERRUPTED if report.was_stopped else FAILED if _has_failed(report) else 0


def _open(parsed: argparse.Namespace, stack: ExitStack, progress: ProgressLine) -> list[OpenTarget]:
    progress.show(f"preparing {parsed.target}")
    targets = [stack.enter_context(opened(parsed.target, target_options(parsed)))]
    if parsed.other:
        progress.show(f"preparing {parsed.other}")
        options = target_options(parsed, is_other=True)
        other = stack.enter_context(opened(parsed.other, options))
        is_same = other.name == targets[0].name
        targets.append(replace(other, name=f"{other.name} (other)") if is_same else other)
    return targets


def _measuring(parsed: argparse.Namespace, progress: ProgressLine) -> Measuring:
    default_s = STEP_S if parsed.saturation else COMPARED_S if parsed.other else DURATION_S
    return Measuring(
        duration_s=parsed.duration or default_s,
        warmup_s=parsed.warm_up,
        timeout_s=parsed.timeout,
        processes=parsed.processes,
        deadline=monotonic() + parsed.deadline if parsed.deadline else float("inf"),
        progress=progress,
    )


def _measure(
    parsed: argparse.Namespace, targets: Sequence[OpenTarget], measuring: Measuring
) -> BenchReport:
    """Measure one target, or compare two."""
    began, load = datetime.now(UTC), load_of(parsed)
    rounds = parsed.rounds or (ROUNDS if parsed.other else 1)
    seen = alternate(targets, load, rounds, measuring)
    figures = [_figures(*each) for each in zip(targets, seen, strict=True) if each[1]]
    is_open = parsed.rate is not None
    report = _report(began, targets, measuring, load)
    warnings = [generator_warning(each) for each in figures]
    return msgspec.structs.replace(
        report,
        targets=figures,
        comparison=compare(*figures, is_open=is_open) if len(figures) == 2 else None,
        warnings=[*report.warnings, *(each for each in warnings if each)],
        was_stopped=any(each.was_stopped for rounds in seen for each in rounds),
    )


def _search(
    parsed: argparse.Namespace, targets: Sequence[OpenTarget], measuring: Measuring
) -> BenchReport:
    """Find the saturation of a target."""
    began = datetime.now(UTC)
    found, is_over = find_saturation(
        targets[0], measuring, p99_s=parsed.p99, arrivals=parsed.arrivals
    )
    report = _report(began, targets, measuring, None)
    warnings = [*report.warnings, *limit_warnings(found)]
    return msgspec.structs.replace(report, saturation=found, was_stopped=is_over, warnings=warnings)


def _report(
    began: datetime, targets: Sequence[OpenTarget], measuring: Measuring, load: Load | None
) -> BenchReport:
    """Return a report without results."""
    return BenchReport(
        began=began.isoformat(timespec="seconds"),
        machine=f"{platform.node()}, {os.cpu_count()} cores, {platform.machine()}",
        load=LoadFigures.of(load) if load else None,
        duration_s=measuring.duration_s,
        warmup_s=measuring.warmup_s,
        targets=[],
        comparison=None,
        saturation=None,
        warnings=[f"{each.name}: {warning}" for each in targets for warning in each.warnings],
        was_stopped=False,
    )


def _figures(target: OpenTarget, seen: list[Measurement]) -> TargetFigures:
    return TargetFigures.of(target.name, target.url, len(target.target.requests), seen)


def _show(parsed: argparse.Namespace, report: BenchReport) -> None:
    if parsed.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print(as_text(report), end="")
    if parsed.html:
        write_page(parsed.html, bench_page(report))


def write_page(path: Path, text: str) -> None:
    """Write a report.

    :raises StartupError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StartupError(f"--html: {path}: {error.strerror}") from error


def _has_failed(report: BenchReport) -> bool:
    """Return whether requests failed that the target should have answered."""
    if report.saturation:
        return _finds_nothing(report.saturation)
    return any(each.failed + each.unanswered for target in report.targets for each in target.rounds)


def _finds_nothing(found: SaturationFigures) -> bool:
    return found.highest is None
