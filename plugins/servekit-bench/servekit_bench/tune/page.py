# SPDX-License-Identifier: Apache-2.0
"""The outcome of a search as one HTML file with plots."""

from collections.abc import Iterator
from math import isfinite

from servekit_archiver.cli.output import human_seconds

from servekit_bench.report.page import figure, heading, html_page, html_table, paragraph
from servekit_bench.report.plot import Axis, Guide, Plot, PlotSeries
from servekit_bench.tune.outcome import Outcome
from servekit_bench.tune.probing import Probe
from servekit_bench.tune.text import cost_lines, measured_rows, verdict
from servekit_bench.tune.trials import MeasuredCandidate

__all__ = ["tune_page"]

MAX_CURVES = 5  #: candidates in the plot of latencies


def tune_page(model: str, outcome: Outcome) -> str:
    """Return the file."""
    return html_page(f"servekit tune: {model}", _parts(model, outcome))


def _parts(model: str, outcome: Outcome) -> Iterator[str]:
    yield paragraph(verdict(model, outcome), is_strong=True)
    yield paragraph(f"Confidence: {outcome.confidence}. {' '.join(_sentences(outcome))}")
    yield heading("Measured settings")
    yield html_table(*measured_rows(outcome))
    for each in outcome.avoided:
        yield paragraph(f"Not tried: {each}.")
    yield figure(
        _latency(outcome), "Each point is a load at fixed moments; the dashed line is the limit."
    )
    for probe in outcome.probes:
        yield figure(_curve(probe), "; ".join(cost_lines(probe)))
    yield figure(_predicted(outcome), "On the line, the model of the costs is right.")


def _sentences(outcome: Outcome) -> Iterator[str]:
    return (f"{each[0].upper()}{each[1:]}." for each in outcome.all_doubts)


def _latency(outcome: Outcome) -> Plot:
    """Return latency against throughput."""
    ranked = [*outcome.ranked, *outcome.all_measured]
    chosen = list({id(each): each for each in ranked}.values())[:MAX_CURVES]
    if outcome.own in outcome.all_measured and outcome.own not in chosen:
        chosen[-1:] = [outcome.own]
    series = [_of_trials(each, hue, outcome) for hue, each in enumerate(chosen)]
    guides = [Guide(1e3 * outcome.goal.p99_s, f"p99 of {human_seconds(outcome.goal.p99_s)}")]
    x, y = Axis("requests/s", low=0), Axis("p99, ms", is_log=True)
    return Plot("Latency against throughput", x, y, series, guides)


def _of_trials(measured: MeasuredCandidate, hue: int, outcome: Outcome) -> PlotSeries:
    own = " (archive)" if measured is outcome.own else ""
    trials = sorted((t for t in measured.trials if isfinite(t.p99_s)), key=lambda t: t.rate)
    points = [(each.requests_per_s, 1e3 * each.p99_s) for each in trials]
    return PlotSeries(f"{measured.candidate.label}{own}", points, hue=hue)


def _curve(probe: Probe) -> Plot:
    """Return what batches cost by their size, and the line through it."""
    line, points = probe.curve.line, probe.curve.points
    ends = [(float(size), 1e3 * line.at(size)) for size, _ in (points[0], points[-1])]
    series = [
        PlotSeries(
            "batches",
            [(float(each.size), 1e3 * each.total_s) for each in probe.curve.batches],
            kind="dots",
        ),
        PlotSeries("median", [(size, 1e3 * took) for size, took in points], hue=1),
        PlotSeries("line", ends, hue=2, is_dashed=True),
    ]
    title = f"Cost of a batch, {probe.threads_label}"
    return Plot(title, Axis("inputs", low=0), Axis("ms", low=0), series)


def _predicted(outcome: Outcome) -> Plot:
    found = [(each.predicted, each.rate(outcome.goal)) for each in outcome.all_measured]
    points = sorted(point for point in found if all(point))
    most = max((max(point) for point in points), default=0.0)
    series = [
        PlotSeries("candidates", points, kind="dots"),
        PlotSeries("equal", [(0.0, 0.0), (most, most)] if points else [], hue=2, is_dashed=True),
    ]
    x, y = Axis("predicted requests/s", low=0), Axis("measured requests/s", low=0)
    return Plot("Predictions and measurements", x, y, series)
