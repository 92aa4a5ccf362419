# SPDX-License-Identifier: Apache-2.0
"""A report as text for a terminal."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from servekit_bench.report.bench_report import BenchReport
from servekit_bench.report.distributions import Bin
from servekit_bench.report.figures import (
    LoadFigures,
    Percentiles,
    RoundFigures,
    SaturationFigures,
    Spread,
    TargetFigures,
)

__all__ = [
    "as_text",
    "failure_rows",
    "generator_warning",
    "limit_warnings",
    "load_words",
    "milliseconds",
    "rows_of",
    "saturation_lines",
    "step_rows",
    "table",
]

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


def step_rows(found: SaturationFigures) -> tuple[Sequence[str], list[list[str]]]:
    """Return the head and the rows of the steps of a search for the saturation."""
    head = ("load", "requests/s", "p50", "p99", "failed", "kept")
    return head, [
        [
            f"{step.rate:.4g} requests/s" if step.rate else connections_words(step.connections),
            f"{step.requests_per_s:,.0f}",
            milliseconds(step.p50_ms),
            milliseconds(step.p99_ms),
            f"{step.failed_share:.1%}",
            "yes" if step.is_kept else "no",
        ]
        for step in found.steps
    ]


def saturation_lines(found: SaturationFigures) -> list[str]:
    """Say in sentences which load the target can take."""
    if found.capacity is None:
        return [f"{found.name}: the search ended before it found anything"]
    most = found.capacity
    rate, connections = f"{most.requests_per_s:,.0f}", connections_words(most.connections)
    lines = [f"{found.name}: the most in a closed loop is {rate} requests/s, with {connections}"]
    bound = f" within {milliseconds(found.p99_ms)}" if found.p99_ms else ""
    if found.highest and found.highest.rate:
        lines.append(
            f"it keeps up with {found.highest.rate:,.0f} requests/s{bound}: "
            f"p50 {milliseconds(found.highest.p50_ms)}, p99 {milliseconds(found.highest.p99_ms)}"
        )
    elif any(step.rate for step in found.steps):
        lines.append(f"none of the rates was kept{bound}")
    return lines


def load_words(load: LoadFigures) -> str:
    """Describe a load in words."""
    if load.rate is None:
        return f"closed loop, {connections_words(load.connections)}"
    return f"open loop, {load.rate:g} requests/s, {load.arrivals} arrivals"


def connections_words(count: int) -> str:
    """Return a number of connections in words."""
    return f"{count} connection{'s' if count != 1 else ''}"


def milliseconds(value: float | None) -> str:
    """Return milliseconds in three digits, with their unit."""
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{value:.3g} ms" if value >= 1 else f"{1000 * value:.3g} us"


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


def generator_warning(target: TargetFigures) -> str | None:
    """Say in a sentence that something else than the server limited the load, if that is so."""
    limited = [each.generator for each in target.rounds if each.generator.limit]
    if not limited:
        return None
    if any(each.limit == "generator" for each in limited):
        busiest = max(limited, key=lambda each: each.cpu)
        return (
            f"{target.name}: the load generator itself is the limit (its busiest process used "
            f"{busiest.cpu:.0%} of a core): the server may be faster; try --processes "
            f"{busiest.processes + 1}"
        )
    waited = max(each.cpu_wait for each in limited)
    return (
        f"{target.name}: the load generator waited for a core {waited:.0%} of the time: "
        "it shares a busy machine with the server, and latencies contain that wait"
    )


def limit_warnings(found: SaturationFigures) -> list[str]:
    """Say whether something else than the server limited the load in the steps of a search."""
    limits = {step.limit for step in found.steps}
    if "generator" in limits:
        return ["the load generator itself was the limit in some steps; try --processes 2"]
    if "machine" in limits:
        return ["the load generator shares a busy machine with the server, and waited for cores"]
    return []


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
    many = f" ({found.low:,.0f} to {found.high:,.0f})" if found.low != found.high else ""
    return f"{found.median:,.0f}{many}" if found.median >= 100 else f"{found.median:.3g}{many}"


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


def size(count: float) -> str:
    """Return bytes in a unit that fits: ``1.5 MB``."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
