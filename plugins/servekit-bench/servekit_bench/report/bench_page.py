# SPDX-License-Identifier: Apache-2.0
"""The report of ``servekit bench`` as one HTML file."""

from collections.abc import Callable, Iterator
from typing import Final

from servekit_bench.report.bench_report import BenchReport
from servekit_bench.report.figures import (
    CoursePoint,
    RoundFigures,
    SaturationFigures,
    TargetFigures,
)
from servekit_bench.report.limits import saturation_lines, step_rows
from servekit_bench.report.page import figure, heading, html_page, html_table, paragraph
from servekit_bench.report.plot import Axis, Guide, Plot, PlotSeries
from servekit_bench.report.table import failure_rows, rows_of
from servekit_bench.report.words import load_words, milliseconds

__all__ = ["bench_page"]

NINES: Final = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999)


def bench_page(report: BenchReport) -> str:
    """Return the file."""
    names = [each.name for each in report.targets]
    if report.saturation:
        names.append(report.saturation.name)
    title = " and ".join(names) or "no target"
    return html_page(f"servekit bench: {title}", _parts(report))


def _parts(report: BenchReport) -> Iterator[str]:
    load = load_words(report.load) if report.load else "rising load"
    yield paragraph(
        f"{load}; {report.duration_s:g} s after {report.warmup_s:g} s of warm-up; "
        f"{report.began}; {report.machine}"
    )
    if report.saturation:
        yield from _saturation(report.saturation)
    else:
        yield html_table(*rows_of(report))
    for each in report.comparison.lines if report.comparison else []:
        yield paragraph(each, is_strong=True)
    for each in report.warnings:
        yield paragraph(each)
    yield figure(_rounds(report), "The targets alternate; each point is one round.")
    yield from _failures(report)
    yield figure(
        _percentiles(report), "Up to this share of the requests was answered within this time."
    )
    yield figure(_histogram(report), "Answers by latency, all rounds together.")
    yield figure(_course(report, "Latency over time", "ms", _p50, _p99), "In the last round.")
    yield figure(_course(report, "Answers over time", "answers/s", _rate), "In the last round.")


def _saturation(found: SaturationFigures) -> Iterator[str]:
    for each in saturation_lines(found):
        yield paragraph(each, is_strong=True)
    yield html_table(*step_rows(found))
    rising = [step for step in found.steps if step.rate is None]
    points = [(float(step.connections), step.requests_per_s) for step in rising]
    plot = Plot(
        "Throughput of a closed loop",
        Axis("connections", is_log=True, ticks=[(x, f"{x:.0f}") for x, _ in points]),
        Axis("requests/s", low=0),
        [PlotSeries("", points)],
    )
    yield figure(plot)
    rated = sorted((step for step in found.steps if step.rate), key=lambda step: step.rate or 0)
    bound = [Guide(found.p99_ms, f"bound {milliseconds(found.p99_ms)}")] if found.p99_ms else []
    series = [
        PlotSeries("p50", [(s.rate or 0, s.p50_ms) for s in rated if s.p50_ms]),
        PlotSeries("p99", [(s.rate or 0, s.p99_ms) for s in rated if s.p99_ms], hue=1),
    ]
    axis = Axis("requests/s that were asked for")
    yield figure(Plot("Latency at a given rate", axis, Axis("ms", is_log=True), series, bound))


def _rounds(report: BenchReport) -> Plot:
    """Draw the 99th percentile of each round, if there are several."""
    series = [
        PlotSeries(target.name, _of_rounds(target, lambda each: each.latency_ms.p99), hue=hue)
        for hue, target in enumerate(report.targets)
        if len(target.rounds) > 1
    ]
    numbers = sorted({x for each in series for x, _ in each.points})
    x = Axis("round", ticks=[(each, f"{each:.0f}") for each in numbers])
    return Plot("p99 of each round", x, Axis("ms", low=0), series)


def _of_rounds(
    target: TargetFigures, figure_of: Callable[[RoundFigures], float | None]
) -> list[tuple[float, float]]:
    found = [(float(number), figure_of(each)) for number, each in enumerate(target.rounds, 1)]
    return [(x, y) for x, y in found if y is not None]


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
