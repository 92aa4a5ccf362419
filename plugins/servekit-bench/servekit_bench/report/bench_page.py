# SPDX-License-Identifier: Apache-2.0
"""The report of ``servekit bench`` as one HTML file."""

from collections.abc import Callable, Iterator
from typing import Final

from servekit_bench.report.figures import BenchReport, CoursePoint, TargetFigures
from servekit_bench.report.page import figure, heading, html_page, html_table, paragraph
from servekit_bench.report.plot import Axis, Plot, PlotSeries
from servekit_bench.report.table import failure_rows, load_words, milliseconds, rows_of

__all__ = ["bench_page"]

NINES: Final = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999)


def bench_page(report: BenchReport) -> str:
    """Return the file."""
    title = " and ".join(each.name for each in report.targets) or "no target"
    return html_page(f"servekit bench: {title}", _parts(report))


def _parts(report: BenchReport) -> Iterator[str]:
    yield paragraph(
        f"{load_words(report.load)}; {report.duration_s:g} s after {report.warmup_s:g} s of "
        f"warm-up; {report.began}; {report.machine}"
    )
    yield html_table(*rows_of(report))
    for each in report.warnings:
        yield paragraph(each)
    yield from _failures(report)
    yield figure(
        _percentiles(report), "Up to this share of the requests was answered within this time."
    )
    yield figure(_histogram(report), "Answers by latency, all rounds together.")
    yield figure(_course(report, "Latency over time", "ms", _p50, _p99), "In the last round.")
    yield figure(_course(report, "Answers over time", "answers/s", _rate), "In the last round.")


def _failures(report: BenchReport) -> Iterator[str]:
    rows = [
        (target.name, kind, f"{count:,}", message)
        for target in report.targets
        for kind, count, message in failure_rows(target)
    ]
    if rows:
        yield heading("Failures")
        yield html_table(("target", "failure", "requests", "first message"), rows)


def _percentiles(report: BenchReport) -> Plot:
    series = [
        PlotSeries(
            target.name,
            [(1 / (1 - percent / 100), ms) for percent, ms in target.curve],
            hue=hue,
            notes=[f"p{percent:g}: {milliseconds(ms)}" for percent, ms in target.curve],
        )
        for hue, target in enumerate(report.targets)
    ]
    most = max((point[0] for each in series for point in each.points), default=1.0)
    ticks = [(1 / (1 - each / 100), f"p{each:g}") for each in NINES if 1 / (1 - each / 100) <= most]
    x = Axis("percentile", is_log=True, ticks=ticks)
    return Plot("Percentiles of latency", x, Axis("ms", is_log=True), series)


def _histogram(report: BenchReport) -> Plot:
    series = [
        PlotSeries(
            target.name,
            [(max(each.from_ms, 1e-3), float(each.count)) for each in target.histogram],
            kind="bars",
            hue=hue,
            notes=[
                f"{milliseconds(each.from_ms)} to {milliseconds(each.to_ms)}: {each.count:,}"
                for each in target.histogram
            ],
        )
        for hue, target in enumerate(report.targets)
    ]
    return Plot("Latencies", Axis("ms", is_log=True), Axis("answers", low=0), series)


def _course(
    report: BenchReport, title: str, unit: str, *figures: Callable[[CoursePoint], float | None]
) -> Plot:
    series = [
        PlotSeries(
            _course_label(target, number if len(figures) > 1 else -1),
            _points(target, each),
            hue=hue + number * len(report.targets),
            is_dashed=number == 1,
        )
        for hue, target in enumerate(report.targets)
        for number, each in enumerate(figures)
    ]
    return Plot(title, Axis("s"), Axis(unit, low=0), series)


def _course_label(target: TargetFigures, number: int) -> str:
    return target.name if number < 0 else f"{target.name} {('p50', 'p99')[number]}"


def _points(
    target: TargetFigures, figure_of: Callable[[CoursePoint], float | None]
) -> list[tuple[float, float]]:
    found = [(each.at_s, figure_of(each)) for each in target.rounds[-1].course]
    return [(x, y) for x, y in found if y is not None]


def _p50(point: CoursePoint) -> float | None:
    return point.p50_ms


def _p99(point: CoursePoint) -> float | None:
    return point.p99_ms


def _rate(point: CoursePoint) -> float:
    return point.requests_per_s
