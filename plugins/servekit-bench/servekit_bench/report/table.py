# SPDX-License-Identifier: Apache-2.0
"""A report as text for a terminal."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from servekit_bench.report.bench_report import BenchReport
from servekit_bench.report.distributions import Bin
from servekit_bench.report.figures import (
    Percentiles,
    RoundFigures,
    Spread,
    TargetFigures,
)
from servekit_bench.report.limits import saturation_lines, step_rows
from servekit_bench.report.words import load_words, milliseconds, rate_words, size

__all__ = ["as_text", "failure_rows", "rows_of", "table"]

BAR: Final = 40  #: characters of the longest bar of a histogram
LATENCIES: Final = {
    "p50": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p99_9": "p99.9",
    "max": "max",
}


def as_text(report: BenchReport) -> str:
    """Return the report, with a newline at the end."""
    lines: list[str] = []
    if report.load:
        lines += [f"{load_words(report.load)}, {report.duration_s:g} s{_rounds(report)}", ""]
        lines += table(*rows_of(report))
    for target in report.targets:
        lines += ["", *_details(target, with_name=len(report.targets) > 1)]
    if report.comparison:
        lines += ["", *report.comparison.lines]
    if report.saturation:
        lines += [*table(*step_rows(report.saturation)), "", *saturation_lines(report.saturation)]
    lines += ["", *(f"note: {each}" for each in report.warnings)] if report.warnings else []
    return "\n".join(lines) + "\n"


def rows_of(report: BenchReport) -> tuple[Sequence[str], list[list[str]]]:
    """Return the head and the rows of the table."""
    head = ("target", "requests/s", *LATENCIES.values(), "failed")
    return head, [_row(target) for target in report.targets]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the first column is text, the others are numbers."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _rounds(report: BenchReport) -> str:
    count = max((len(target.rounds) for target in report.targets), default=0)
    return f"; medians of {count} rounds (lowest to highest)" if count > 1 else ""


def _row(target: TargetFigures) -> list[str]:
    failed = sum(each.failed + each.unanswered for each in target.rounds)
    found = [target.spread(attrgetter(f"latency_ms.{name}")) for name in LATENCIES]
    rate = target.spread(lambda r: r.requests_per_s)
    return [target.name, _rate(rate), *(_latency(each) for each in found), f"{failed:,}"]


def _rate(found: Spread | None) -> str:
    assert found is not None
    is_spread = found.low != found.high
    many = f" ({rate_words(found.low)} to {rate_words(found.high)})" if is_spread else ""
    return f"{rate_words(found.median)}{many}"


def _latency(found: Spread | None) -> str:
    return milliseconds(found.median if found else None)


def _details(target: TargetFigures, *, with_name: bool) -> Iterator[str]:
    last = target.rounds[-1]
    if with_name:
        yield f"{target.name}:"
    yield f"  {target.url}, {target.inputs} input{'s' if target.inputs != 1 else ''}"
    yield (
        f"  {sum(each.requests for each in target.rounds):,} requests; "
        f"{size(last.sent_bytes_per_s)}/s sent, {size(last.received_bytes_per_s)}/s received"
    )
    yield from _stream_lines(last)
    yield from _failure_lines(target)
    yield from _histogram(target.histogram)


def _stream_lines(seen: RoundFigures) -> Iterator[str]:
    if seen.stream is None:
        return
    yield f"  {seen.stream.streams:,} streams, {seen.stream.outputs_per_s:,.0f} outputs/s"
    yield f"  first output:     {_few(seen.stream.first_output_ms)}"
    yield f"  between outputs:  {_few(seen.stream.gap_ms)}"


def _few(found: Percentiles) -> str:
    return (
        f"p50 {milliseconds(found.p50)}, p99 {milliseconds(found.p99)}, "
        f"max {milliseconds(found.max)}"
    )


def failure_rows(target: TargetFigures) -> list[tuple[str, int, str]]:
    """Return kind, number and first message of the failures, the most frequent first."""
    counts: dict[str, int] = {}
    messages: dict[str, str] = {}
    for each in target.rounds:
        for failure in each.failures:
            counts[failure.kind] = counts.get(failure.kind, 0) + failure.count
            messages.setdefault(failure.kind, failure.message)
    return [
        (kind, count, " ".join(messages[kind].split()))
        for kind, count in sorted(counts.items(), key=lambda item: -item[1])
    ]


def _failure_lines(target: TargetFigures) -> Iterator[str]:
    for kind, count, message in failure_rows(target):
        yield f"  {count:,} failed, {kind}: {message}"
    unanswered = sum(each.unanswered for each in target.rounds)
    if unanswered:
        yield f"  {unanswered:,} had no answer at the end"


def _histogram(bins: Sequence[Bin]) -> Iterator[str]:
    """Draw the bars, two bins of the report in one line."""
    pairs = [bins[at : at + 2] for at in range(0, len(bins), 2)]
    most = max((sum(each.count for each in pair) for pair in pairs), default=0)
    for pair in pairs:
        count = sum(each.count for each in pair)
        bar = "#" * max(1, round(BAR * count / most)) if count else ""
        yield f"  {milliseconds(pair[-1].to_ms):>9} | {bar:<{BAR}} {count:,}"
